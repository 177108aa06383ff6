// What can still be had of the host's memory, asked of the kernel: for copies there, and where a GPU shares it (an
// integrated GPU: Jetson, DGX Spark). The driver's own answer (cuMemGetInfo) is the kernel's MemFree there: files that
// the kernel keeps in memory and would forget count as taken, and nothing says when the host begins to swap.

#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allocator/port/units.h"

namespace frugal {

// Thread-safe.
class UnifiedMemory {
 public:
  // A whole file; nullopt: it cannot be read.
  using FileReader = std::function<std::optional<std::string>(const std::string& path)>;

  struct State {
    Bytes total;      // MemTotal
    Bytes free;       // MemFree
    Bytes available;  // MemAvailable: to be had without swapping, by the kernel's estimate; swap is not counted
    Bytes own;        // this process's pageable memory
    Bytes reserve;    // of the host, that is left alone
    // Of the control group above this process that has least left; kUnlimited: none has a limit.
    Bytes group_limit = kUnlimited;
    Bytes group_current;
    Bytes group_left = kUnlimited;  // files that could be forgotten included
    Bytes group_reserve;
    // Whether the limit is one on the GPU's memory, too.
    bool group_counts_gpu = true;

    // What a GPU may still be given before the host would swap or kill.
    Bytes Room() const;
  };

  // Finds the control groups (v2) above this process, whose limits are read anew by each Look().
  explicit UnifiedMemory(FileReader read = ReadFile);

  // Takes some system calls: for when physical memory is to be made, not for each allocation. kUnavailable: the kernel
  // does not say.
  absl::StatusOr<State> Look() const;

  // Memory of the host, and of a group that has a limit, that is never taken; nullopt: a part, kReservedPart.
  void SetReserve(std::optional<Bytes> reserve) { reserve_.store(reserve ? reserve->count() : kUsual); }
  // Of a group that does not, the limit is none on the GPU's memory. Until it is known, it counts as one that does.
  void SetGroupCountsGpu(bool counts) { group_counts_gpu_.store(counts); }

  // A 20th. A choice, not a measurement: see docs/hardware.md.
  static constexpr int64_t kReservedPart = 20;

  static std::optional<std::string> ReadFile(const std::string& path);

 private:
  static constexpr int64_t kUsual = -1;

  Bytes ReserveOf(Bytes total) const;
  void LookAtGroups(State& state) const;

  const FileReader read_;
  std::vector<std::string> groups_;  // folders
  std::atomic<int64_t> reserve_{kUsual};
  std::atomic<bool> group_counts_gpu_{true};
};

}  // namespace frugal
