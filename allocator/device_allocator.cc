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
  return Watched(
      [&] { return WithLock(&DeviceAllocator::AllocateLocked, &Fail, requested, stream, annotation, least, sample); });
}

absl::StatusOr<Allocation> DeviceAllocator::AllocateFrom(MemorySource source, Bytes requested, Stream stream,
                                                         void* annotation, Bytes least, Sample sample, bool only_free) {
  {
    absl::MutexLock lock(&state_.mutex);
    if (state_.is_plain) {
      return Guarded(&DeviceAllocator::AllocateFromLocked, &Fail, source, requested, stream, annotation, least, sample,
                     only_free);
    }
  }
  return Watched([&] {
    return WithLock(&DeviceAllocator::AllocateFromLocked, &Fail, source, requested, stream, annotation, least, sample,
                    only_free);
  });
}

template <typename Call>
absl::StatusOr<Allocation> DeviceAllocator::Watched(Call&& allocate) {
  ObserverQueue::Call call(state_.observers);
  absl::StatusOr<Allocation> made = allocate();
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
  state_.ledger.HandedOut(*block, sample);
  state_.CheckChange();
  return Allocation{block->address, size};
}

// As AllocateLocked, of which a part that both share would take ten instructions more.
absl::StatusOr<Allocation> DeviceAllocator::AllocateFromLocked(MemorySource source, Bytes requested, Stream stream,
                                                               void* annotation, Bytes least, Sample sample,
                                                               bool only_free) {
  const Bytes size = RoundUp(std::max(requested, least), kGrain);
  if (state_.returns.needs_poll()) state_.ledger.failures().Absorb(state_.returns.Poll());
  if (state_.returns.awaits_in_capture()) state_.returns.PollWithinCapture(stream);
  const SizeClass size_class = source.kind == MemoryKind::kMovable ? ClassOf(size) : CoarseClassOf(size);
  Arena& arena = state_.arenas.Get(stream, size_class, source);
  Block* block = only_free ? TakeFree(arena, size) : arena.TakeByTraits(size);
  if (block == nullptr) {
    if (only_free) return absl::ResourceExhaustedError("no free block of the pool is large enough");
    absl::StatusOr<Block*> taken = TakeOnMiss(arena, size, requested);
    if (!taken.ok()) return taken.status();
    block = *taken;
  }
  return HandOut(block, requested, annotation, sample);
}

Allocation DeviceAllocator::HandOut(Block* block, Bytes requested, void* annotation, Sample sample) {
  state_.CheckBlock(*block);
  Extent& extent = *block->extent;
  if (extent.arena().FixesWhatItHandsOut()) state_.backing->Fix(extent.PagesOf(block->address, block->end()), true);
  block->use = {requested, annotation};
  state_.allocated.Insert(block);
  state_.ledger.HandedOut(*block, sample);
  state_.CheckChange();
  return {block->address, block->size};
}

absl::StatusOr<Allocation> DeviceAllocator::AllocateAt(PoolId pool, std::optional<Stream> stream, Address address,
                                                       Bytes requested, void* annotation, Sample sample) {
  return Watched([&] {
    return WithLock(&DeviceAllocator::AllocateAtLocked, &Fail, pool, stream, address, requested, annotation, sample);
  });
}

absl::StatusOr<Allocation> DeviceAllocator::AllocateAtLocked(PoolId pool, std::optional<Stream> stream, Address address,
                                                             Bytes requested, void* annotation, Sample sample) {
  const Bytes size = RoundUp(requested, kGrain);
  const Extent* const extent = state_.arenas.ExtentWith(address);
  const bool is_meant = extent != nullptr && extent->arena().pool() == pool &&
                        (!stream.has_value() || extent->arena().clock().stream() == *stream);
  if (is_meant) {
    Block* const whole = extent->BlockAt(address);
    if (whole->IsFree() && address + size <= whole->end()) {
      return HandOut(extent->arena().TakePart(whole, address, size), requested, annotation, sample);
    }
  }
  return absl::NotFoundError(absl::StrFormat("there are no %d bytes of free memory of this pool and stream at %#x",
                                             requested.count(), address.value()));
}

void DeviceAllocator::SetPoolTraits(PoolId pool, const PoolTraits& traits) {
  absl::MutexLock lock(&state_.mutex);
  state_.arenas.SetTraits(pool, traits);
}

absl::Status DeviceAllocator::ReleasePool(PoolId pool) {
  return WithLock(&DeviceAllocator::ReleasePoolLocked, &DoNothing, pool);
}

absl::Status DeviceAllocator::ReleasePoolLocked(PoolId pool) {
  state_.pools.Release(pool);
  return absl::OkStatus();
}

absl::Status DeviceAllocator::KeepPool(PoolId pool, bool captured, uint8_t tag) {
  return WithBothLocks(&DeviceAllocator::KeepPoolLocked, pool, captured, tag);
}

absl::Status DeviceAllocator::KeepPoolLocked(PoolId pool, bool captured, uint8_t tag) {
  state_.pools.Keep(pool, captured);
  state_.pools.SetTag(pool, tag);
  state_.CheckChange();
  return absl::OkStatus();
}

absl::StatusOr<Bytes> DeviceAllocator::ReturnReleased() {
  return WithBothLocks(&DeviceAllocator::ReturnReleasedLocked);
}

absl::StatusOr<Bytes> DeviceAllocator::ReturnReleasedLocked() {
  const Bytes before = state_.backing->held();
  // Where a stream is captured, they stay for now.
  if (state_.clocks.TryWaitForAll()) {
    for (const PoolId pool : state_.pools.LetGo(KeptPools::Which::kUnread)) {
      state_.ledger.failures().Absorb(state_.backing->ReturnFree(kUnlimited, pool).status());
    }
    sleep().SettleDropped();
  }
  state_.CheckChange();
  return before - state_.backing->held();
}

Block* DeviceAllocator::TakeFree(Arena& arena, Bytes size) {
  Arena* const from = state_.arenas.WithAnyRoom(arena, size);
  return from == nullptr ? nullptr : from->TakeByTraits(size);
}

absl::StatusOr<Block*> DeviceAllocator::TakeOnMiss(Arena& arena, Bytes size, Bytes requested) {
  const GrowthTurn turn(state_.growth_mutex, state_.mutex);
  state_.lock.CheckHealth();
  sleep().SettleDropped();
  // Others may have made room while this waited.
  if (Block* const block = arena.TakeByTraits(size); block != nullptr) return block;
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
  if (absl::IsResourceExhausted(status) && sleep().SettleDropped()) {
    // What was reclaimed had slept, with memory below it that had not gone.
    status = state_.ladder.MakeRoom(miss);
  }
  state_.CheckChange();
  if (!status.ok() && !absl::IsResourceExhausted(status)) return status;
  // Also where no step helped: others may have freed something while the last of them was under way.
  if (Block* const block = TakeFree(arena, size); block != nullptr) return block;
  FRUGAL_CHECK(!status.ok());
  state_.ladder.NoteOutOfMemory(miss, failures.latest());
  return status;
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
  state_.ledger.GivenBack(*block);
  if (block->has_more) [[unlikely]] {
    FreeWithMore(arena, block);
  } else if (state_.returns.PutBack(arena, block, BlockStep::kReturn)) [[unlikely]] {
    state_.returns.SendGuestsHome();
  }
  state_.CheckChange();
  return size;
}

void DeviceAllocator::FreeWithMore(Arena& arena, Block* block) {
  block->has_more = false;
  block->tag = 0;
  auto others = state_.other_streams.extract(block);
  if (block->state == BlockState::kAsleep) {
    // All work had been done before it fell asleep.
    state_.ledger.Completed(*block);
    block->last_use = static_cast<uint32_t>(arena.clock().now());
    block->Apply(BlockStep::kDrop);
    // A graph may still read it once the pool wakes.
    if (arena.FixesWhatItHandsOut()) return block->Apply(BlockStep::kFallAsleepInPool);
    state_.dropped_asleep = true;
  } else if (!others.empty()) {
    state_.returns.Defer(block, others.mapped());
  } else if (state_.returns.PutBack(arena, block, BlockStep::kReturn)) {
    state_.returns.SendGuestsHome();
  }
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
  block->has_more = true;
  absl::InlinedVector<Stream, 2>& streams = state_.other_streams[block];
  if (std::find(streams.begin(), streams.end(), stream) == streams.end()) streams.push_back(stream);
}

absl::StatusOr<Bytes> DeviceAllocator::Trim(Bytes enough, OnlyPool only) {
  return WithBothLocks(&DeviceAllocator::GiveBack<OnlyPool>, &DeviceAllocator::TrimOnce, enough, only);
}

template <typename... Only>
absl::StatusOr<Bytes> DeviceAllocator::GiveBack(absl::Status (DeviceAllocator::*once)(Bytes enough, Only... only),
                                                Bytes enough, Only... only) {
  const Bytes before = state_.backing->held();
  const int64_t failures = state_.ledger.statistics().num_driver_failures;
  absl::Status status = (this->*once)(enough, only...);
  state_.ledger.failures().Absorb(status);
  // Also where the call went on in another way, since something may have stayed for it.
  if (state_.ledger.statistics().num_driver_failures > failures)
    status = (this->*once)(enough - (before - state_.backing->held()), only...);
  state_.CheckChange();
  if (!status.ok()) return status;
  return before - state_.backing->held();
}

absl::Status DeviceAllocator::TrimOnce(Bytes enough, OnlyPool only) {
  sleep().SettleDropped();
  if (only.has_value() && !state_.arenas.HasMemoryOf(*only)) return absl::OkStatus();
  if (enough < kUnlimited) {
    state_.clocks.End();
    const absl::StatusOr<Bytes> passed = state_.backing->ReturnFree(enough, only);
    if (!passed.ok()) return passed.status();
    enough -= *passed;
  }
  if (enough <= Bytes(0)) return absl::OkStatus();
  absl::Status status = state_.returns.WaitForAllWork(KeptPools::Which::kAll, only);
  status.Update(state_.backing->ReturnFree(enough, only).status());
  return status;
}

absl::StatusOr<Bytes> DeviceAllocator::ReturnPassed(Bytes enough) {
  return WithBothLocks(&DeviceAllocator::GiveBack<>, &DeviceAllocator::ReturnPassedOnce, enough);
}

absl::Status DeviceAllocator::ReturnPassedOnce(Bytes enough) {
  state_.ledger.failures().Absorb(state_.returns.Poll());
  const absl::StatusOr<Bytes> passed = state_.backing->ReturnFree(enough, std::nullopt);
  // An era that is under way goes on: a busy program never passes the latest of many.
  if (!passed.ok() || *passed >= enough || !HaveStreamsPassedLocked()) return passed.status();
  state_.clocks.End();
  return state_.backing->ReturnFree(enough - *passed, std::nullopt).status();
}

bool DeviceAllocator::HaveStreamsPassed() {
  return WithLock(&DeviceAllocator::HaveStreamsPassedLocked, [](const absl::Status& /*health*/) { return true; });
}

bool DeviceAllocator::HaveStreamsPassedLocked() { return state_.clocks.HasPassed(state_.clocks.era() - 1); }

bool DeviceAllocator::IsIdle() {
  return WithLock(&DeviceAllocator::IsIdleLocked, [](const absl::Status& /*health*/) { return false; });
}

bool DeviceAllocator::IsIdleLocked() {
  // A device that has nothing to do takes some microseconds to say so.
  constexpr int kQuestions = 32;
  if (state_.clocks.HasCapture()) return false;
  for (int question = 0; question < kQuestions; ++question) {
    if (HaveStreamsPassedLocked()) return true;
  }
  return false;
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
  return WithBothLocks(&DeviceAllocator::GiveBack<>, &DeviceAllocator::ReturnIdleOnce, enough);
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
  state_.ledger.ResetPeaks();
  if (state_.births != nullptr) state_.births->RestartPeak();
}

void DeviceAllocator::ResetAccumulatedStatistics() {
  absl::MutexLock lock(&state_.mutex);
  state_.ledger.ResetAccumulated();
}

}  // namespace frugal
