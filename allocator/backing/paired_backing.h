// Backing of a device that can map: handles for arenas whose memory moves, segments for those whose memory others open.

#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "allocator/backing/backing.h"
#include "allocator/backing/movable_backing.h"
#include "allocator/backing/segment_backing.h"

namespace frugal {

// Both have one limit. Free memory of one goes back to the device where the other lacks it.
class PairedBacking : public Backing {
 public:
  // As those of MovableBacking and SegmentBacking.
  PairedBacking(Device& device, ArenaSet& arenas, Ledger& ledger, MemoryLimit& memory_limit, StreamClocks& clocks,
                AddressDirectory& directory, DeviceAllocator* owner, AllocatorLocks lock)
      : arenas_(arenas),
        clocks_(clocks),
        limit_(memory_limit.shared()),
        movable_(device, arenas, ledger, memory_limit, clocks, directory, owner, lock),
        segments_(device, arenas, ledger, memory_limit, clocks, directory, owner, lock) {}

  absl::Status Extend(Arena& arena, Bytes size, WaitPolicy wait_policy) override;
  bool BecameFree(Block* block, Address start, Address end) override { return movable_.BecameFree(block, start, end); }
  void SendGuestsHome(Extent& extent, Address start, Address end) override {
    movable_.SendGuestsHome(extent, start, end);
  }
  absl::StatusOr<Bytes> ReturnFree(Bytes enough, const OnlyPool& only) override;
  absl::StatusOr<Bytes> ReturnIdle(Bytes enough, const UseMarks& marks) override;

  void SetDriverCosts(const DriverCosts& costs) override { movable_.SetDriverCosts(costs); }
  void SetRemapping(bool on) override { movable_.SetRemapping(on); }
  void SetOptions(const PolicyOptions& options) override { movable_.SetOptions(options); }
  void KeepPeak(Bytes most_in_use) override { movable_.KeepPeak(most_in_use); }
  absl::Status KeepInPlace(Address start, Bytes size, bool keep) override;
  void Fix(PageRun run, bool fixed) override { movable_.Fix(run, fixed); }
  absl::Status Empty(absl::Span<const PageRun> runs, std::vector<PageRun>& emptied) override {
    return movable_.Empty(runs, emptied);
  }
  absl::Status Refill(absl::Span<const PageRun> runs) override { return movable_.Refill(runs); }
  Bytes held() const override { return movable_.held() + segments_.held(); }
  void CheckInvariants() const override;

 private:
  // Of the segments what the handles did not bring.
  template <typename Which>
  absl::StatusOr<Bytes> ReturnOfBoth(absl::StatusOr<Bytes> (Backing::*give_back)(Bytes, const Which&), Bytes enough,
                                     const Which& which);

  const ArenaSet& arenas_;
  StreamClocks& clocks_;
  const SharedLimit& limit_;
  MovableBacking movable_;
  SegmentBacking segments_;
};

}  // namespace frugal
