#include "allocator/device_allocator.h"

#include <algorithm>
#include <memory>

#include "absl/base/attributes.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "allocator/backing/movable_backing.h"
#include "allocator/backing/segment_backing.h"
#include "allocator/port/check.h"

namespace frugal {
namespace {

SizeGroup GroupFor(Bytes size) { return size <= kSmallLimit ? SizeGroup::kSmall : SizeGroup::kLarge; }

std::unique_ptr<Backing> BackingFor(Device& device, ArenaSet& arenas, Ledger& ledger, MemoryLimit& memory_limit,
                                    StreamClocks& clocks, AddressDirectory& directory, DeviceAllocator* owner,
                                    AllocatorLocks lock) {
  if (!device.HasVirtualMemory()) {
    return std::make_unique<SegmentBacking>(device, arenas, ledger, memory_limit, directory, owner, lock);
  }
  return std::make_unique<MovableBacking>(device, arenas, ledger, memory_limit, clocks, directory, owner, lock);
}

absl::Status NotOurs(Address address) {
  return absl::NotFoundError(absl::StrFormat("no block that was handed out starts at %#x", address.value()));
}

}  // namespace

DeviceAllocator::DeviceAllocator(Device& device, AddressDirectory& directory, Reclaimer* reclaimer)
    : lock_(growth_mutex_, mutex_, health_),
      memory_limit_(device, lock_),
      clocks_(device, ledger_, reclaimer),
      arenas_(clocks_, ledger_),
      backing_(BackingFor(device, arenas_, ledger_, memory_limit_, clocks_, directory, this, lock_)),
      returns_(device, ledger_, clocks_, *backing_),
      ladder_({reclaimer, ledger_, memory_limit_, clocks_, arenas_, *backing_, returns_}, lock_) {}

DeviceAllocator::~DeviceAllocator() {
  absl::MutexLock growth(&growth_mutex_);
  absl::MutexLock lock(&mutex_);
  // Nobody knows any more what may be given back, so it stays where it is.
  if (!health_.ok()) static_cast<void>(backing_.release());
  backing_.reset();
}

absl::StatusOr<Allocation> DeviceAllocator::Allocate(Bytes requested, Stream stream, void* annotation, Bytes least,
                                                     Sample sample) {
  absl::MutexLock lock(&mutex_);
  if (!health_.ok()) [[unlikely]]
    return health_;
  try {
    return AllocateLocked(requested, stream, annotation, least, sample);
  } catch (const BrokenInvariant& broken) {
    return Break(broken);
  }
}

ABSL_ATTRIBUTE_ALWAYS_INLINE
inline absl::StatusOr<Allocation> DeviceAllocator::AllocateLocked(Bytes requested, Stream stream, void* annotation,
                                                                  Bytes least, Sample sample) {
  const Bytes size = RoundUp(std::max(requested, least), kGrain);
  const SizeGroup group = GroupFor(size);
  if (returns_.awaits()) [[unlikely]]
    ledger_.failures().Absorb(returns_.Poll());
  Arena& arena = arenas_.Get(stream, group);
  if (stream.may_end) [[unlikely]]
    ledger_.failures().Absorb(arena.clock().MarkIfWanted());
  Block* block = arena.Take(size);
  if (block == nullptr) [[unlikely]] {
    arena.clock().NamedAs(stream);
    absl::StatusOr<Block*> taken = TakeOnMiss(arena, size, requested);
    if (!taken.ok()) return taken.status();
    block = *taken;
  }
  CheckBlock(*block);
  block->use = {requested, annotation};
  allocated_.Insert(block);
  ledger_.HandedOut(*block, group, sample);
  CheckChange();
  return Allocation{block->address, size};
}

absl::StatusOr<Block*> DeviceAllocator::TakeOnMiss(Arena& arena, Bytes size, Bytes requested) {
  const GrowthTurn turn(growth_mutex_, mutex_);
  lock_.CheckHealth();
  // Others may have made room while this waited.
  if (Block* const block = arena.Take(size); block != nullptr) return block;
  // Those of earlier requests were made up for, and are no reason why this one fails.
  ledger_.failures().Forget();
  absl::Status status = ladder_.MakeRoom(arena, size);
  if (!status.ok() && !absl::IsResourceExhausted(status)) {
    Absorb(status);
    status = ladder_.MakeRoom(arena, size);
  }
  CheckChange();
  if (absl::IsResourceExhausted(status)) ladder_.NoteOutOfMemory(requested);
  if (!status.ok()) return status;
  Block* const block = arena.Take(size);
  FRUGAL_CHECK(block != nullptr);
  return block;
}

absl::StatusOr<Bytes> DeviceAllocator::Free(Address address) {
  absl::MutexLock lock(&mutex_);
  // What is broken keeps its blocks.
  if (!health_.ok()) [[unlikely]]
    return Bytes(0);
  try {
    return FreeLocked(address);
  } catch (const BrokenInvariant& broken) {
    static_cast<void>(Break(broken));
    return Bytes(0);
  }
}

ABSL_ATTRIBUTE_ALWAYS_INLINE
inline absl::StatusOr<Bytes> DeviceAllocator::FreeLocked(Address address) {
  Block* block = allocated_.Take(address);
  if (block == nullptr) [[unlikely]]
    return NotOurs(address);
  CheckBlock(*block);
  const Bytes size = block->size;
  Arena& arena = block->extent->arena();
  ledger_.GivenBack(*block, arena.group());
  if (block->has_other_streams) [[unlikely]] {
    returns_.Defer(block, other_streams_.extract(block).mapped());
  } else {
    returns_.PutBack(arena, block, BlockStep::kReturn);
  }
  CheckChange();
  return size;
}

absl::Status DeviceAllocator::RecordStream(Address address, Stream stream) {
  absl::MutexLock lock(&mutex_);
  if (!health_.ok()) return absl::OkStatus();
  Block* block = allocated_.Find(address);
  if (block == nullptr) return NotOurs(address);
  // The program names the stream now.
  if (stream != OwnerStream(*block)) ledger_.failures().Absorb(clocks_.Get(stream).MarkIfWanted());
  AddStream(block, stream);
  return absl::OkStatus();
}

absl::Status DeviceAllocator::RecordKnownStreams(Address address) {
  absl::MutexLock lock(&mutex_);
  if (!health_.ok()) return absl::OkStatus();
  Block* block = allocated_.Find(address);
  if (block == nullptr) return NotOurs(address);
  clocks_.ForEachLasting([&](Stream stream) ABSL_NO_THREAD_SAFETY_ANALYSIS { AddStream(block, stream); });
  return absl::OkStatus();
}

void DeviceAllocator::AddStream(Block* block, Stream stream) {
  if (stream == OwnerStream(*block)) return;
  block->has_other_streams = true;
  absl::InlinedVector<Stream, 2>& streams = other_streams_[block];
  if (std::find(streams.begin(), streams.end(), stream) == streams.end()) streams.push_back(stream);
}

std::vector<Stream> DeviceAllocator::StreamsOf(Address address) const {
  absl::MutexLock lock(&mutex_);
  Block* const block = health_.ok() ? allocated_.Find(address) : nullptr;
  if (block == nullptr) return {};
  std::vector<Stream> streams = {OwnerStream(*block)};
  if (const auto others = other_streams_.find(block); others != other_streams_.end()) {
    streams.insert(streams.end(), others->second.begin(), others->second.end());
  }
  return streams;
}

absl::StatusOr<Bytes> DeviceAllocator::Trim(Bytes enough) {
  absl::MutexLock growth(&growth_mutex_);
  absl::MutexLock lock(&mutex_);
  return Guarded(&DeviceAllocator::GiveBack, &DeviceAllocator::TrimOnce, enough);
}

absl::StatusOr<Bytes> DeviceAllocator::GiveBack(absl::Status (DeviceAllocator::*once)(Bytes enough), Bytes enough) {
  const Bytes before = backing_->held();
  const int64_t failures = ledger_.statistics().num_driver_failures;
  absl::Status status = (this->*once)(enough);
  ledger_.failures().Absorb(status);
  // Also where the call went on in another way, since something may have stayed for it.
  if (ledger_.statistics().num_driver_failures > failures) status = (this->*once)(enough - (before - backing_->held()));
  CheckChange();
  if (!status.ok()) return status;
  return before - backing_->held();
}

absl::Status DeviceAllocator::TrimOnce(Bytes enough) {
  if (enough < kUnlimited) {
    clocks_.End();
    const absl::StatusOr<Bytes> passed = backing_->ReturnFree(enough);
    if (!passed.ok()) return passed.status();
    enough -= *passed;
  }
  if (enough <= Bytes(0)) return absl::OkStatus();
  absl::Status status = returns_.WaitForAllWork();
  status.Update(backing_->ReturnFree(enough).status());
  return status;
}

absl::Status DeviceAllocator::MarkUse() {
  absl::MutexLock lock(&mutex_);
  if (!health_.ok()) return health_;
  const int64_t failures = ledger_.statistics().num_driver_failures;
  use_marks_.MoveToNow(arenas_, clocks_);
  if (ledger_.statistics().num_driver_failures > failures) use_marks_.MoveToNow(arenas_, clocks_);
  return absl::OkStatus();
}

absl::StatusOr<Bytes> DeviceAllocator::ReturnIdle(Bytes enough) {
  absl::MutexLock growth(&growth_mutex_);
  absl::MutexLock lock(&mutex_);
  return Guarded(&DeviceAllocator::GiveBack, &DeviceAllocator::ReturnIdleOnce, enough);
}

absl::Status DeviceAllocator::ReturnIdleOnce(Bytes enough) {
  ledger_.failures().Absorb(returns_.Poll());
  // A copy: others may move the marks while the driver works.
  const UseMarks marks = use_marks_;
  return backing_->ReturnIdle(enough, marks).status();
}

void DeviceAllocator::SetDriverCosts(const DriverCosts& costs) {
  absl::MutexLock growth(&growth_mutex_);
  absl::MutexLock lock(&mutex_);
  backing_->SetDriverCosts(costs);
}

void DeviceAllocator::SetDriverReserve(Bytes reserve) {
  absl::MutexLock growth(&growth_mutex_);
  absl::MutexLock lock(&mutex_);
  memory_limit_.SetReserve(reserve);
}

void DeviceAllocator::SetOptions(const PolicyOptions& options) {
  absl::MutexLock growth(&growth_mutex_);
  absl::MutexLock lock(&mutex_);
  backing_->SetOptions(options);
}

void DeviceAllocator::SetRemapping(bool on) {
  absl::MutexLock growth(&growth_mutex_);
  absl::MutexLock lock(&mutex_);
  backing_->SetRemapping(on);
}

absl::Status DeviceAllocator::KeepInPlace(Address start, Bytes size, bool keep) {
  absl::MutexLock growth(&growth_mutex_);
  absl::MutexLock lock(&mutex_);
  return Guarded(&DeviceAllocator::KeepInPlaceLocked, start, size, keep);
}

absl::Status DeviceAllocator::KeepInPlaceLocked(Address start, Bytes size, bool keep) {
  absl::Status status = backing_->KeepInPlace(start, size, keep);
  CheckChange();
  return status;
}

void DeviceAllocator::SetLimit(Bytes limit, Bytes (*others)(void* context), void* context) {
  absl::MutexLock growth(&growth_mutex_);
  absl::MutexLock lock(&mutex_);
  memory_limit_.SetLimit(limit, others, context);
}

Bytes DeviceAllocator::Limit() const {
  absl::MutexLock lock(&mutex_);
  return memory_limit_.limit();
}

void DeviceAllocator::SetObserver(Observer* observer) {
  absl::MutexLock lock(&mutex_);
  ledger_.SetObserver(observer);
}

BirthEpochs& DeviceAllocator::Births() {
  if (births_ != nullptr) return *births_;
  births_ = std::make_unique<BirthEpochs>();
  for (const Arena* arena : arenas_.all()) {
    for (const std::unique_ptr<Extent>& extent : arena->extents()) {
      for (Block* block = extent->first_block(); block != nullptr; block = block->next) {
        // Nobody kept the sites of blocks that are older.
        if (block->state == BlockState::kAllocated) block->birth = births_->Born(block->size, {kNoSite});
      }
    }
  }
  ledger_.RecordBirths(births_.get());
  return *births_;
}

absl::Status DeviceAllocator::ChangeEpochs(void (BirthEpochs::*change)()) {
  (Births().*change)();
  CheckChange();
  return absl::OkStatus();
}

void DeviceAllocator::RecordBirths() {
  absl::MutexLock lock(&mutex_);
  if (health_.ok()) static_cast<void>(Births());
}

// Nothing but a broken invariant makes these fail, and Health() tells of that.

void DeviceAllocator::EndEpoch() {
  absl::MutexLock lock(&mutex_);
  static_cast<void>(Guarded(&DeviceAllocator::ChangeEpochs, &BirthEpochs::EndEpoch));
}

void DeviceAllocator::CollapseEpochs() {
  absl::MutexLock lock(&mutex_);
  static_cast<void>(Guarded(&DeviceAllocator::ChangeEpochs, &BirthEpochs::CollapseEpochs));
}

void DeviceAllocator::HalveEpochs() {
  absl::MutexLock lock(&mutex_);
  static_cast<void>(Guarded(&DeviceAllocator::ChangeEpochs, &BirthEpochs::HalveEpochs));
}

DeviceAllocator::EpochReport DeviceAllocator::GetEpochReport() const {
  absl::MutexLock lock(&mutex_);
  const Bytes live(ledger_.statistics().allocated_bytes[SizeGroup::kAll].current);
  if (births_ == nullptr) return {0, live, {}};
  return {births_->epochs_ended(), live, births_->Histories()};
}

void DeviceAllocator::RestartSitePeaks() {
  absl::MutexLock lock(&mutex_);
  if (births_ != nullptr) births_->RestartPeak();
}

Bytes DeviceAllocator::TakeHighestRecorded() {
  absl::MutexLock lock(&mutex_);
  return births_ == nullptr ? Bytes(0) : births_->TakeHighest();
}

std::vector<SiteUsage> DeviceAllocator::SiteUsages() const {
  absl::MutexLock lock(&mutex_);
  return births_ == nullptr ? std::vector<SiteUsage>() : births_->Usages();
}

Statistics DeviceAllocator::GetStatistics() const {
  absl::MutexLock lock(&mutex_);
  return ledger_.statistics();
}

void DeviceAllocator::ResetPeakStatistics() {
  absl::MutexLock lock(&mutex_);
  backing_->KeepPeak(Bytes(ledger_.statistics().active_bytes()[SizeGroup::kAll].peak));
  ledger_.statistics().ResetPeaks();
  if (births_ != nullptr) births_->RestartPeak();
}

void DeviceAllocator::ResetAccumulatedStatistics() {
  absl::MutexLock lock(&mutex_);
  ledger_.statistics().ResetAccumulated();
}

Bytes DeviceAllocator::Held() const {
  absl::MutexLock lock(&mutex_);
  return backing_->held();
}

const OutOfMemoryReport& DeviceAllocator::LastOutOfMemory() { return MissLadder::LastOutOfMemory(); }

void DeviceAllocator::Absorb(const absl::Status& failure) {
  ledger_.failures().Absorb(failure);
  CheckChange();
}

void DeviceAllocator::SetCheckLevel(CheckLevel level) {
  absl::MutexLock lock(&mutex_);
  check_level_ = level;
}

void DeviceAllocator::CheckInvariants() const {
  absl::MutexLock lock(&mutex_);
  CheckInvariantsLocked();
}

absl::Status DeviceAllocator::Health() const {
  absl::MutexLock lock(&mutex_);
  return health_;
}

absl::Status DeviceAllocator::Break(const BrokenInvariant& broken) {
  health_ = absl::DataLossError(broken.what());
  return health_;
}

void DeviceAllocator::CheckInvariantsLocked() const {
  Bytes active;
  Bytes recorded;
  for (const Arena* arena : arenas_.all()) {
    arena->CheckInvariants();
    for (const std::unique_ptr<Extent>& extent : arena->extents()) {
      for (const Block* block = extent->first_block(); block != nullptr; block = block->next) {
        if (block->IsInUse()) active += block->size;
        if (births_ != nullptr && block->state == BlockState::kAllocated) {
          recorded += births_->CountedFor(block->birth, block->size);
        }
        FRUGAL_CHECK((block->state == BlockState::kAllocated) == allocated_.Contains(block->address));
      }
    }
  }
  FRUGAL_CHECK(births_ == nullptr || births_->live() == recorded);
  FRUGAL_CHECK(active.count() == ledger_.statistics().active_bytes()[SizeGroup::kAll].current);
  backing_->CheckInvariants();
}

}  // namespace frugal
