#include "allocator/device_allocator.h"

#include <algorithm>

#include "absl/base/attributes.h"
#include "absl/strings/str_format.h"
#include "allocator/port/check.h"

namespace frugal {
namespace {

absl::Status NotOurs(Address address) {
  return absl::NotFoundError(absl::StrFormat("no block that was handed out starts at %#x", address.value()));
}

}  // namespace

absl::StatusOr<Allocation> DeviceAllocator::Allocate(Bytes requested, Stream stream, void* annotation, Bytes least,
                                                     Sample sample) {
  {
    absl::MutexLock lock(&state_.mutex);
    if (state_.is_plain) [[likely]] {
      return Guarded(&DeviceAllocator::AllocateLocked, &Fail, requested, stream, annotation, least, sample);
    }
  }
  return AllocateWatched(requested, stream, annotation, least, sample);
}

absl::StatusOr<Allocation> DeviceAllocator::AllocateWatched(Bytes requested, Stream stream, void* annotation,
                                                            Bytes least, Sample sample) {
  ObserverQueue::Call call(state_.observers);
  absl::StatusOr<Allocation> made =
      WithLock(&DeviceAllocator::AllocateLocked, &Fail, requested, stream, annotation, least, sample);
  try {
    call.Finish();
  } catch (...) {
    // Its caller gets the exception, and no block.
    const ObserverQueue::Call undo(state_.observers);
    if (made.ok()) static_cast<void>(WithLock(&DeviceAllocator::FreeLocked, &FreeNothing, made->address));
    throw;
  }
  return made;
}

ABSL_ATTRIBUTE_ALWAYS_INLINE
inline absl::StatusOr<Allocation> DeviceAllocator::AllocateLocked(Bytes requested, Stream stream, void* annotation,
                                                                  Bytes least, Sample sample) {
  const Bytes size = RoundUp(std::max(requested, least), kGrain);
  if (state_.returns.needs_poll()) [[unlikely]]
    state_.ledger.failures().Absorb(state_.returns.Poll());
  Arena& arena = state_.arenas.Get(stream, ClassOf(size));
  Block* block = arena.Take(size);
  if (block == nullptr) [[unlikely]] {
    absl::StatusOr<Block*> taken = TakeOnMiss(arena, size, requested);
    if (!taken.ok()) return taken.status();
    block = *taken;
  }
  state_.CheckBlock(*block);
  block->use = {requested, annotation};
  state_.allocated.Insert(block);
  state_.ledger.HandedOut(*block, arena.group(), sample);
  state_.CheckChange();
  return Allocation{block->address, size};
}

absl::StatusOr<Block*> DeviceAllocator::TakeOnMiss(Arena& arena, Bytes size, Bytes requested) {
  const GrowthTurn turn(state_.growth_mutex, state_.mutex);
  state_.lock.CheckHealth();
  // Others may have made room while this waited.
  if (Block* const block = arena.Take(size); block != nullptr) return block;
  // Those of other requests are no reason why this one fails.
  const DriverFailures::OfRequest failures(state_.ledger.failures());
  Miss miss{arena, size, requested};
  absl::Status status = state_.ladder.MakeRoom(miss);
  if (!status.ok() && !absl::IsResourceExhausted(status)) {
    // A call that failed has changed nothing, and often it succeeds the next time: the driver reports failures of
    // earlier work by whichever call comes next.
    state_.ledger.failures().Absorb(status);
    state_.CheckChange();
    status = state_.ladder.MakeRoom(miss);
  }
  state_.CheckChange();
  if (absl::IsResourceExhausted(status)) state_.ladder.NoteOutOfMemory(miss, failures.latest());
  if (!status.ok()) return status;
  Block* const block = arena.Take(size);
  FRUGAL_CHECK(block != nullptr);
  return block;
}

absl::StatusOr<Bytes> DeviceAllocator::Free(Address address) {
  {
    absl::MutexLock lock(&state_.mutex);
    if (state_.is_plain) [[likely]]
      return Guarded(&DeviceAllocator::FreeLocked, &FreeNothing, address);
  }
  return FreeWatched(address);
}

absl::StatusOr<Bytes> DeviceAllocator::FreeWatched(Address address) {
  ObserverQueue::Call call(state_.observers);
  // What is broken keeps its blocks.
  absl::StatusOr<Bytes> freed = WithLock(&DeviceAllocator::FreeLocked, &FreeNothing, address);
  call.Finish();
  return freed;
}

ABSL_ATTRIBUTE_ALWAYS_INLINE
inline absl::StatusOr<Bytes> DeviceAllocator::FreeLocked(Address address) {
  Block* block = state_.allocated.Take(address);
  if (block == nullptr) [[unlikely]]
    return NotOurs(address);
  state_.CheckBlock(*block);
  const Bytes size = block->size;
  Arena& arena = block->extent->arena();
  state_.ledger.GivenBack(*block, arena.group());
  if (block->has_other_streams) [[unlikely]] {
    state_.returns.Defer(block, state_.other_streams.extract(block).mapped());
  } else if (state_.returns.PutBack(arena, block, BlockStep::kReturn)) [[unlikely]] {
    state_.returns.SendGuestsHome();
  }
  state_.CheckChange();
  return size;
}

absl::Status DeviceAllocator::RecordStream(Address address, Stream stream) {
  return WithLock(&DeviceAllocator::RecordStreamLocked, &DoNothing, address, stream);
}

absl::Status DeviceAllocator::RecordStreamLocked(Address address, Stream stream) {
  const Block* const block = state_.allocated.Find(address);
  if (block == nullptr) return NotOurs(address);
  if (stream == OwnerStream(*block)) return absl::OkStatus();
  state_.clocks.Name(stream);
  // Others went on while the device was asked.
  Block* const still = state_.allocated.Find(address);
  if (still == nullptr) return NotOurs(address);
  AddStream(still, stream);
  return absl::OkStatus();
}

absl::Status DeviceAllocator::RecordKnownStreams(Address address) {
  return WithLock(&DeviceAllocator::RecordKnownStreamsLocked, &DoNothing, address);
}

absl::Status DeviceAllocator::RecordKnownStreamsLocked(Address address) {
  Block* block = state_.allocated.Find(address);
  if (block == nullptr) return NotOurs(address);
  state_.clocks.ForEachLasting([&](Stream stream) ABSL_NO_THREAD_SAFETY_ANALYSIS { AddStream(block, stream); });
  return absl::OkStatus();
}

void DeviceAllocator::AddStream(Block* block, Stream stream) {
  if (stream == OwnerStream(*block)) return;
  block->has_other_streams = true;
  absl::InlinedVector<Stream, 2>& streams = state_.other_streams[block];
  if (std::find(streams.begin(), streams.end(), stream) == streams.end()) streams.push_back(stream);
}

absl::StatusOr<Bytes> DeviceAllocator::Trim(Bytes enough) {
  return WithBothLocks(&DeviceAllocator::GiveBack, &DeviceAllocator::TrimOnce, enough);
}

absl::StatusOr<Bytes> DeviceAllocator::GiveBack(absl::Status (DeviceAllocator::*once)(Bytes enough), Bytes enough) {
  const Bytes before = state_.backing->held();
  const int64_t failures = state_.ledger.statistics().num_driver_failures;
  absl::Status status = (this->*once)(enough);
  state_.ledger.failures().Absorb(status);
  // Also where the call went on in another way, since something may have stayed for it.
  if (state_.ledger.statistics().num_driver_failures > failures)
    status = (this->*once)(enough - (before - state_.backing->held()));
  state_.CheckChange();
  if (!status.ok()) return status;
  return before - state_.backing->held();
}

absl::Status DeviceAllocator::TrimOnce(Bytes enough) {
  if (enough < kUnlimited) {
    state_.clocks.End();
    const absl::StatusOr<Bytes> passed = state_.backing->ReturnFree(enough);
    if (!passed.ok()) return passed.status();
    enough -= *passed;
  }
  if (enough <= Bytes(0)) return absl::OkStatus();
  absl::Status status = state_.returns.WaitForAllWork();
  status.Update(state_.backing->ReturnFree(enough).status());
  return status;
}

absl::Status DeviceAllocator::MarkUse() { return WithLock(&DeviceAllocator::MarkUseLocked, &Fail); }

absl::Status DeviceAllocator::MarkUseLocked() {
  const int64_t failures = state_.ledger.statistics().num_driver_failures;
  state_.use_marks.SetSlowAside(state_.clocks);
  state_.use_marks.MoveToNow(state_.arenas, state_.clocks);
  if (state_.ledger.statistics().num_driver_failures > failures)
    state_.use_marks.MoveToNow(state_.arenas, state_.clocks);
  return absl::OkStatus();
}

absl::StatusOr<Bytes> DeviceAllocator::ReturnIdle(Bytes enough) {
  return WithBothLocks(&DeviceAllocator::GiveBack, &DeviceAllocator::ReturnIdleOnce, enough);
}

absl::Status DeviceAllocator::ReturnIdleOnce(Bytes enough) {
  state_.ledger.failures().Absorb(state_.returns.Poll());
  // A copy: others may move the marks while the driver works.
  const UseMarks marks = state_.use_marks;
  return state_.backing->ReturnIdle(enough, marks).status();
}

absl::Status DeviceAllocator::KeepInPlace(Address start, Bytes size, bool keep) {
  return WithBothLocks(&DeviceAllocator::KeepInPlaceLocked, start, size, keep);
}

absl::Status DeviceAllocator::KeepInPlaceLocked(Address start, Bytes size, bool keep) {
  absl::Status status = state_.backing->KeepInPlace(start, size, keep);
  state_.CheckChange();
  return status;
}

Statistics DeviceAllocator::GetStatistics() const {
  absl::MutexLock lock(&state_.mutex);
  return state_.ledger.statistics();
}

void DeviceAllocator::ResetPeakStatistics() {
  absl::MutexLock lock(&state_.mutex);
  state_.backing->KeepPeak(Bytes(state_.ledger.statistics().active_bytes()[SizeGroup::kAll].peak));
  state_.ledger.statistics().ResetPeaks();
  if (state_.births != nullptr) state_.births->RestartPeak();
}

void DeviceAllocator::ResetAccumulatedStatistics() {
  absl::MutexLock lock(&state_.mutex);
  state_.ledger.statistics().ResetAccumulated();
}

}  // namespace frugal
