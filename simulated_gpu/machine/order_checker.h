// Proves, or refutes, that a program orders its work: of any two operations that touch the same byte, one of them
// writing, one must come after the other by streams, events and what the host has waited for, not by luck.

#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "allocator/port/units.h"
#include "simulated_gpu/machine/access_history.h"
#include "simulated_gpu/machine/mapping_log.h"
#include "simulated_gpu/machine/vector_clock.h"

namespace frugal::sim {

// A vector-clock race detector (as FastTrack's) over physical memory: a handle that is mapped twice is one memory.
// Order does not depend on simulated time: work that counts as finished is ordered for the host only once the host has
// asked. A host that has seen work done raises one clock for all its threads, which is exact, since whatever is
// enqueued later begins later. Who is ordered after whom, Streams knows and tells by clocks; which memory is where,
// VirtualMemory and Segments tell, and it passes on to the log for late work. Thread-safe; calls only that log.
class OrderChecker {
 public:
  // `log` may be null.
  explicit OrderChecker(MappingLog* log = nullptr) : log_(log) {}

  // --- From Streams.

  // A new number for a stream.
  uint32_t AddStream(std::string name);
  void RenameStream(uint32_t stream, std::string name);
  // The host has seen that all of `clock` is done.
  void HostSees(const VectorClock& clock);
  // What is enqueued now comes after all that the host has seen.
  void JoinHost(VectorClock& clock) const;
  // The stream's next operation touches memory; `clock` is what it comes after, and is raised by it.
  void Enter(uint32_t stream, VectorClock& clock, std::string_view name, const std::vector<MemoryUse>& uses);

  // --- From VirtualMemory and Segments.

  using Physical = PhysicalPlace;
  void Map(Address start, Bytes size, Physical physical);
  // Another process's memory, of which nothing is kept, since its own work is not known.
  void MapForeign(Address start, Bytes size) { Map(start, size, {kForeign, 0}); }
  // Reports the operations through [start, start + size), which is mapped whole, that the host has not seen done.
  void Unmap(Address start, Bytes size);
  // What is mapped at `start` may go though work still uses it, since the GPU itself waits: cudaFreeAsync.
  void MayUnmap(Address start);
  // Forgets what touched it.
  void GiveBack(Physical physical, Bytes size);

  // --- From LateWork.

  // A violation of its own kind.
  void Tell(std::string line);

  // --- From whoever asks.

  // Ranges entered, and pairs of operations without order (or operations under an unmap) found so far.
  uint64_t accesses() const;
  uint64_t violations() const;
  // One line for each of the first kMostTold violations, each ended by '\n'; "" if there are none.
  std::string Report() const;

  static constexpr size_t kMostTold = 16;

 private:
  static constexpr int kForeign = -1;

  struct View {
    Bytes size;
    Physical physical;
    std::vector<Access> uses;  // Those that do not come one after the other.
  };
  using Views = std::map<Address, View>;
  using PageKey = std::pair<int, int64_t>;  // GPU, number of the page.
  struct PageHash {
    size_t operator()(const PageKey& page) const {
      return std::hash<int64_t>()(page.second) * 31 + static_cast<size_t>(page.first);
    }
  };
  // Stream and operation of both; an operation 0 is the host's.
  using Pair = std::tuple<uint32_t, uint64_t, uint32_t, uint64_t>;

  // The following need the lock.
  void EnterRange(const Access& access, const VectorClock& seen, bool must_be_mapped);
  // [into, into + size) of the view.
  void EnterView(View& view, Bytes into, Bytes size, const Access& access, const VectorClock& seen);
  void FoundUnordered(const Access& before, const Access& after, const VectorClock& seen);
  void Tell(const Pair& pair, std::string line);
  std::string Describe(const Access& access) const;
  uint32_t NameOf(std::string_view name);

  MappingLog* const log_;

  mutable std::mutex mutex_;
  std::vector<std::string> streams_;
  VectorClock host_;
  Views views_;
  std::unordered_map<PageKey, AccessHistory, PageHash> pages_;
  std::vector<std::string> names_;
  std::map<std::string, uint32_t, std::less<>> name_numbers_;
  uint64_t accesses_ = 0;
  uint64_t told_of_late_work_ = 0;
  std::set<Pair> found_;
  std::vector<std::string> told_;
};

}  // namespace frugal::sim
