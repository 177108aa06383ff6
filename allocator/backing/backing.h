// Where the physical memory of a device's arenas comes from when a request misses.
//
// Implementations: MovableBacking (handles that are remapped), SegmentBacking (pieces of cudaMalloc), and PairedBacking
// (both).

#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "allocator/blocks/arena.h"
#include "allocator/blocks/use_marks.h"
#include "allocator/port/driver_costs.h"
#include "allocator/port/policy_options.h"
#include "allocator/port/pool_id.h"
#include "allocator/port/units.h"

namespace frugal {

// How far to go for memory, each including the ones before.
enum class WaitPolicy {
  kPassed,              // free memory whose streams have passed, and new memory from the device
  kThroughStreamWaits,  // free memory that other streams have not passed: the arena's stream waits for them
  kIntoReserve,         // what is left to the driver
  kWithHostWaits,       // free memory that only a wait of the host can give back
};

// Not thread-safe.
class Backing {
 public:
  virtual ~Backing() = default;

  // Leaves `arena` with a free block of at least `size`. kResourceExhausted: not within `wait_policy`. On any error
  // every block is as it was.
  virtual absl::Status Extend(Arena& arena, Bytes size, WaitPolicy wait_policy) = 0;

  // [start, end) of the free block `block` has just become free. Asks nobody. Returns whether there is something that
  // SendGuestsHome could do.
  virtual bool BecameFree(Block* /*block*/, Address /*start*/, Address /*end*/) { return false; }
  // The stream of the extent has passed what it was told up to when [start, end) became free, which may be in use
  // again. Asks nobody.
  virtual void SendGuestsHome(Extent& /*extent*/, Address /*start*/, Address /*end*/) {}

  // Gives free memory of such pools that is whole pages or segments back to the device until `enough` of it, or all,
  // has gone, but for what a stream has not passed. Returns what went.
  virtual absl::StatusOr<Bytes> ReturnFree(Bytes enough, const OnlyPool& only) = 0;
  // The same with what is idle by `marks`, of all pools. The host waits only for streams that the program may have
  // destroyed, or that fail.
  virtual absl::StatusOr<Bytes> ReturnIdle(Bytes enough, const UseMarks& marks) = 0;

  // See AllocatorSettings and DeviceAllocator. What cannot move needs none of these.
  virtual void SetDriverCosts(const DriverCosts& /*costs*/) {}
  virtual void SetRemapping(bool /*on*/) {}
  virtual void SetOptions(const PolicyOptions& /*options*/) {}
  // The most that was in use, of which the statistics are about to forget.
  virtual void KeepPeak(Bytes /*most_in_use*/) {}
  virtual absl::Status KeepInPlace(Address start, Bytes size, bool keep) = 0;
  // The handles that are live in the run stay where they are while graphs may read them, or need no longer.
  virtual void Fix(PageRun /*run*/, bool /*fixed*/) {}

  // See Sleep. The pages, of handles that nothing but sleeping and claimed blocks lie in, give theirs to the device.
  // `emptied`: what went, from the start of each run on. An error ends it.
  virtual absl::Status Empty(absl::Span<const PageRun> /*runs*/, std::vector<PageRun>& /*emptied*/) {
    return absl::OkStatus();
  }
  // All of these pages, which have no memory, get new one, or none does. kResourceExhausted: there is not so much.
  virtual absl::Status Refill(absl::Span<const PageRun> /*runs*/) { return absl::OkStatus(); }

  // Physical memory, whether blocks can be had from it or not.
  virtual Bytes held() const = 0;

  virtual void CheckInvariants() const = 0;
};

}  // namespace frugal
