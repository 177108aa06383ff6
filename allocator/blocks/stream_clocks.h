// The streams of a device, and the eras that they go through together.

#ifndef FRUGAL_ALLOCATOR_BLOCKS_STREAM_CLOCKS_H_
#define FRUGAL_ALLOCATOR_BLOCKS_STREAM_CLOCKS_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "allocator/blocks/ledger.h"
#include "allocator/blocks/stream_clock.h"
#include "allocator/port/device.h"
#include "allocator/port/observer.h"

namespace frugal {

// A program that forgets record_stream lets one stream read what another gave back. With PyTorch's own allocator the
// memory stays mapped, and the read is harmless more often than not; a view that was unmapped meanwhile would end the
// program. So a view goes only when *every* stream that is known has passed, not just the one whose memory it was:
// about 1 us for each stream, beside 30 for an unmap. An event of the whole context (cuCtxRecordEvent) would cover
// streams that are not known, too, but it ends every stream capture that is under way.
//
// Eras are numbered from 1. A view that is left behind is stamped with the present era; the first question about that
// era ends it, with a mark in each stream. An event that fails is no error here: the era has then not passed.
//
// Streams that are being captured take no part: they cannot be marked, nothing of theirs runs before the capture is
// over, and PyTorch waits for the device before it begins one.
// Not thread-safe.
class StreamClocks {
 public:
  using Era = int64_t;

  // `reclaimer` may be null: then nobody captures but streams that are known.
  StreamClocks(Device& device, Ledger& ledger, const Reclaimer* reclaimer)
      : device_(device), ledger_(ledger), reclaimer_(reclaimer) {}
  StreamClocks(const StreamClocks&) = delete;
  StreamClocks& operator=(const StreamClocks&) = delete;

  // The stream is known from now on.
  StreamClock& Get(Stream stream);

  // f(Stream) for each known stream that the program does not destroy.
  template <typename F>
  void ForEachLasting(F&& f) const {
    for (const StreamClock* clock : all_) {
      if (!clock->stream().may_end) f(clock->stream());
    }
  }

  // The era that what is left behind now belongs to. The one before has ended.
  Era era() const { return era_; }
  // Ends the present era, and returns it.
  Era End() {
    EndEra();
    return era_ - 1;
  }
  // Whether all that the known streams were told up to the end of `era`, ended now if it is the present one, is done.
  bool HasPassed(Era era);
  // The host waits for all work of the device. False if it could not, since a stream is being captured or the driver
  // fails: then it has waited for the streams that it could.
  bool WaitForAll();
  // Whether only a wait of the host can tell what a stream has done.
  bool NeedsHost() const;

 private:
  struct Mark {
    StreamClock* clock;
    StreamClock::Tick tick;
  };
  using Marks = std::vector<Mark>;

  Marks& MarksOf(Era era) { return ended_[static_cast<size_t>(era - passed_ - 1)]; }
  void Passed(Era era);
  // Returns whether a stream is being captured.
  bool EndEra();
  bool SynchronizeAll();

  Device& device_;
  Ledger& ledger_;
  const Reclaimer* const reclaimer_;
  absl::flat_hash_map<Stream, std::unique_ptr<StreamClock>> by_stream_;
  std::vector<StreamClock*> all_;  // in the order in which they became known
  Era era_ = 1;
  Era passed_ = 0;
  std::deque<Marks> ended_;  // of the eras after passed_, what has not passed: size = era_ - passed_ - 1
};

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_BLOCKS_STREAM_CLOCKS_H_
