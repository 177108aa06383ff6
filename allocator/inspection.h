// What an allocator holds now, for those who look and change nothing.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "allocator/allocator_state.h"
#include "allocator/births/allocation_site.h"
#include "allocator/port/device.h"
#include "allocator/port/pool_id.h"
#include "allocator/port/units.h"

namespace frugal {

// One block of a snapshot.
struct BlockView {
  Address address;
  Bytes size;
  Bytes requested;
  // kSetAside: free, and nobody can have it now.
  enum class State { kFree, kAllocated, kAwaitingStreams, kSetAside } state;
  void* annotation;
  // Of an allocated block that was recorded; see BirthRecord.
  SiteId site = kUnsampled;
  int64_t epoch = -1;
  // That it sleeps by: an allocated block's own, or that of its pool if that sleeps as a whole.
  uint8_t tag = 0;
  bool asleep = false;
};

// Of the allocator that has this state.
BlockView ViewOf(const Block& block, const AllocatorState& state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex);

// One run of mapped pages (or one segment of cudaMalloc), with its blocks in the order of addresses.
struct SegmentView {
  Address address;
  Bytes size;
  Stream stream;
  PoolId pool;
  bool small;   // holds requests up to kSmallLimit
  bool mapped;  // made of handles; false: a segment of cudaMalloc
  bool fixed;   // mapped, and read by graphs where it is
  std::vector<BlockView> blocks;
  Bytes emptied;  // without memory, since blocks are asleep; see Sleep
  // Of what is free; see allocator/stitching/unusable.h.
  Bytes unusable;  // in handles that blocks in use share
  Bytes kept;      // for its private pool alone
};

// A facet of a DeviceAllocator, for any thread. Once an invariant does not hold, nothing is found any more.
class Inspection {
 public:
  explicit Inspection(const AllocatorState& state) : state_(state) {}

  // All segments that are mapped, of such pools, with their blocks.
  std::vector<SegmentView> Snapshot(const OnlyPool& only = std::nullopt) const;
  // The block handed out that contains `address`.
  std::optional<BlockView> FindBlock(Address address) const;
  // The segment that contains `address`, without its blocks.
  std::optional<SegmentView> FindSegment(Address address) const;
  // The streams that may use the block that starts at `address`: its own, then those of RecordStream. Empty: no block
  // that was handed out starts there.
  std::vector<Stream> StreamsOf(Address address) const;

  Bytes LargestFreeBlock() const;
  // Physical memory that is held, also what a device call that failed has left over, which the next miss or Trim finds.
  Bytes Held() const;

  // kDataLoss and the invariant that did not hold, or OK.
  absl::Status Health() const;
  // Fails as FRUGAL_CHECK does, to the caller, if the accounting does not add up.
  void CheckInvariants() const;

 private:
  const AllocatorState& state_;
};

}  // namespace frugal
