// The streams of a device, and the eras that they go through together.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "allocator/blocks/allocator_locks.h"
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
// Not every stream takes part in every era:
// - One that is being captured cannot be marked, nothing of its runs before the capture is over, and PyTorch waits for
//   the device before it begins one.
// - One that the program may destroy is known from its naming until the host has next waited for all work. It is marked
//   when it is named, once an era: so one that is gone costs others a single wait. One whose events fail is out from
//   such a wait until an event of it has passed.
// - One that was set aside, since it passes nothing for too long, is out until it has passed what it was asked for.
// This is for programs with a mistake. Whether memory may be used anew is asked of its own stream, whatever the eras.
//
// Not thread-safe. What asks the device, or has the host wait, lets go of the accounting lock meanwhile: eras end and
// streams begin then. A clock stays where it is for as long as this exists.
class StreamClocks {
 public:
  using Era = int64_t;

  // `reclaimer` may be null: then nobody captures but streams that are known.
  StreamClocks(Device& device, Ledger& ledger, const Reclaimer* reclaimer, AllocatorLocks lock)
      : device_(device), ledger_(ledger), reclaimer_(reclaimer), lock_(lock) {}
  StreamClocks(const StreamClocks&) = delete;
  StreamClocks& operator=(const StreamClocks&) = delete;

  // The program names the stream at this moment. One with its handle and another life has ended. Asks the device where
  // the stream does not last.
  StreamClock& Name(Stream stream);
  // null: the stream was never named, or it has ended and the host has waited for all work since.
  StreamClock* Find(Stream stream) const;

  // f(Stream) for each known stream that the program does not destroy.
  template <typename F>
  void ForEachLasting(F&& f) const {
    for (const std::unique_ptr<Member>& member : all_) {
      if (member->clock.stream().lasts()) f(member->clock.stream());
    }
  }

  // The era that what is left behind now belongs to. The one before has ended.
  Era era() const { return era_; }
  // Whether it is known that all streams have passed the era.
  bool IsPassed(Era era) const { return era <= passed_; }

  // --- What asks the device.

  // Ends the present era, and returns it.
  Era End() { return EndEra().era; }
  // Whether one of the known streams is being captured now, or may be: the driver does not say. Ends the present era.
  bool HasCapture() { return !EndEra().may_wait.ok(); }
  // Whether a graph is perhaps being captured, or about to be, as far as programs say so beforehand. Asks no stream.
  bool MayCapture();
  // Whether all that the known streams were told up to the end of `era`, ended now if it is the present one, is done.
  bool HasPassed(Era era);
  // Whether `era` has not passed for want of nothing but an answer that only a wait of the host can give: of streams
  // that the program may have destroyed, or whose events fail. REQUIRES: it has ended.
  bool NeedsHost(Era era);
  // Streams that have not passed `era` take part in no era until they have. REQUIRES: it has ended.
  void SetAside(Era era);

  // The host waits for all that the device was told so far. kUnavailable: it could not, since a stream is being
  // captured or the driver fails, and has waited for the streams that it could. kUnknown: the same, since the driver
  // does not say whether a stream is being captured. Both functions count as a wait.
  absl::Status WaitForAll();
  // The same, but if it cannot wait for all it waits for none.
  bool TryWaitForAll();
  // Whether only a wait of the host can tell what a stream has done.
  bool NeedsHost() const;
  // Whether such a wait would be for these streams alone: all others have passed all that they were told, and none of
  // them is being captured.
  bool IsQuiet();

 private:
  using Tick = StreamClock::Tick;

  struct Member {
    Member(Device& device, Stream stream, Era era, AllocatorLocks lock) : clock(device, stream, lock), marked_in(era) {}

    StreamClock clock;
    Era marked_in;   // of one that may end: when it was last marked as it was named, or began
    Tick aside = 0;  // not 0: it takes part in no era until this tick has passed
  };
  struct Mark {
    Member* member;
    Tick tick;

    friend bool operator==(const Mark&, const Mark&) = default;
  };
  using Marks = std::vector<Mark>;
  struct EndedEra {
    Era era;
    absl::Status may_wait;  // kUnavailable: a stream is being captured. kUnknown: the driver does not say
  };

  // Streams that ended are as good as new once the host has waited, and have ranges of addresses each. So many may be
  // waiting for that: a program that makes a stream for each piece of work has one wait in so many.
  static constexpr size_t kMostEnded = 16;

  // The latest of the stream's handle, if it is the stream.
  Member* FindPresent(Stream stream) const;
  Member& Begin(Stream stream);
  void MarkNamed(Member& member);
  // REQUIRES: the era has ended, and not passed.
  Marks& MarksOf(Era era) { return ended_[static_cast<size_t>(era - passed_ - 1)]; }
  // Whether the mark has passed, made now if it is still to be made.
  bool HasPassed(const Mark& mark);
  // Asks about each of the marks of an era that has ended. What is left in MarksOf has not passed. False: none is left.
  bool HasOutstanding(Era era);
  void Passed(Era era);
  EndedEra EndEra();
  // Those aside that have passed what they were asked for are so no more.
  void TakeBackAside();
  // Unless somebody captures.
  absl::Status WaitForDevice();
  absl::Status SynchronizeAll();

  Device& device_;
  Ledger& ledger_;
  const Reclaimer* const reclaimer_;
  AllocatorLocks lock_;
  // The latest of each handle: those that last apart from those that may end, whose life counts as 1 here.
  absl::flat_hash_map<Stream, Member*> by_stream_;
  std::vector<std::unique_ptr<Member>> all_;  // in the order in which they became known
  std::vector<Member*> gone_;                 // of streams that have ended
  std::vector<Member*> unused_;               // the same, and the host has waited since
  Era era_ = 1;
  Era passed_ = 0;
  std::deque<Marks> ended_;  // of the eras after passed_, what has not passed: size = era_ - passed_ - 1
};

}  // namespace frugal
