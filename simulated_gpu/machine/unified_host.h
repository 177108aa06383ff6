// The host whose memory a GPU has, where that has none of its own (FRUGAL_SIM_UNIFIED): what else is in that memory,
// and what the kernel's files say of it.

#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "allocator/port/units.h"

namespace frugal::sim {

// Thread-safe.
class UnifiedHost {
 public:
  struct Options {
    // Otherwise the GPU has memory of its own, and nothing below is asked for.
    bool on = false;
    // What other processes and the kernel hold.
    Bytes others;
    // Files that the kernel keeps in memory as long as nobody wants it.
    Bytes cache;
    // Of the process's control group; kUnlimited: it has no limit.
    Bytes group_limit = kUnlimited;
    // Whether the group's memory.current has the GPU's memory in it.
    bool group_counts_gpu = false;
  };

  // `pageable` says how much memory of this process's could be swapped; empty: what the kernel says.
  explicit UnifiedHost(const Options& options, std::function<Bytes()> pageable = nullptr);

  bool is_on() const { return options_.on; }

  // What is in the host's memory beside the GPU's share and the files that can be forgotten. 0 where it is off.
  Bytes Held() const;
  // The process has pinned `size` more, or less.
  void Pin(Bytes size) { pinned_.fetch_add(size.count()); }
  // What cuMemGetInfo calls free where `available` could be had: the kernel's MemFree, without what it would have to
  // forget first.
  Bytes Free(Bytes available) const;

  // `wanted` more was asked for where there is `available`. A real machine swaps, hangs or kills there, and a driver
  // gives no error before it does; so whoever listens ends the process. Without one, the call fails.
  void NoteOverload(Bytes wanted, Bytes available);
  void OnOverload(std::function<void(const std::string& what)> listener) { listener_ = std::move(listener); }
  int64_t overloads() const { return overloads_.load(); }

  // A file of the kernel's, of the simulated host of `total`, of which the GPU has `gpu`. nullopt: it is no file about
  // memory, and the real one is as good. "": the simulated host has no such file.
  std::optional<std::string> File(std::string_view path, Bytes total, Bytes gpu) const;

 private:
  std::string Meminfo(Bytes total, Bytes gpu) const;
  // One of the group's, by its name without "memory.".
  std::string GroupFile(std::string_view name, Bytes gpu) const;

  const Options options_;
  const std::function<Bytes()> pageable_;
  std::function<void(const std::string&)> listener_;
  std::atomic<int64_t> pinned_{0};
  std::atomic<int64_t> overloads_{0};
};

}  // namespace frugal::sim
