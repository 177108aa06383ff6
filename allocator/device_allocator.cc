#include "allocator/device_allocator.h"

#include <algorithm>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "allocator/check.h"
#include "allocator/movable_backing.h"
#include "allocator/offers.h"
#include "allocator/segment_backing.h"

namespace frugal {
namespace {

SizeGroup GroupFor(Bytes size) { return size <= kSmallLimit ? SizeGroup::kSmall : SizeGroup::kLarge; }

// The part of a free block that could be had elsewhere: whole handles.
Bytes MovablePart(const Block& block) {
  if (block.extent->kind() != Extent::Kind::kMovable || block.size < kPageSize) return Bytes(0);
  return Pages(OfWholeHandles(block.extent->WholePages(block.address, block.end())).count).bytes();
}

OutOfMemoryReport& ThreadsOutOfMemory() {
  thread_local OutOfMemoryReport report;
  return report;
}

absl::Status NotOurs(Address address) {
  return absl::NotFoundError(absl::StrFormat("no block that was handed out starts at %#x", address.value()));
}

}  // namespace

DeviceAllocator::DeviceAllocator(Device& device, AddressDirectory& directory, Reclaimer* reclaimer)
    : device_(device),
      reclaimer_(reclaimer),
      budget_(device),
      timelines_(device, ledger_, reclaimer),
      arenas_(timelines_, ledger_),
      awaiting_(device) {
  absl::MutexLock lock(&mutex_);
  if (device.HasVirtualMemory()) {
    backing_ = std::make_unique<MovableBacking>(device, arenas_, ledger_, budget_, timelines_, directory, this);
  } else {
    backing_ = std::make_unique<SegmentBacking>(device, arenas_, ledger_, budget_, directory, this);
  }
}

DeviceAllocator::~DeviceAllocator() {
  absl::MutexLock lock(&mutex_);
  // Nobody knows any more what may be given back, so it stays where it is.
  if (!health_.ok()) static_cast<void>(backing_.release());
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
  if (!awaiting_.empty()) [[unlikely]]
    ledger_.Absorbed(PollAwaiting());
  Arena& arena = arenas_.Get(stream, group);
  if (stream.may_end) [[unlikely]]
    ledger_.Absorbed(arena.timeline().MarkIfWanted());
  Block* block = arena.Take(size);
  if (block == nullptr) [[unlikely]] {
    arena.timeline().NamedAs(stream);
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
  // Those of earlier requests were made up for, and are no reason why this one fails.
  ledger_.ForgetFailures();
  absl::Status status = MakeRoom(arena, size);
  if (!status.ok() && !absl::IsResourceExhausted(status)) {
    Absorb(status);
    status = MakeRoom(arena, size);
  }
  CheckChange();
  if (absl::IsResourceExhausted(status)) NoteOutOfMemory(requested);
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
    Defer(block);
  } else {
    ledger_.Completed(*block, arena.group());
    PutBack(arena, block, BlockStep::kReturn);
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
  if (stream != block->extent->arena().stream()) ledger_.Absorbed(timelines_.Get(stream).MarkIfWanted());
  AddStream(block, stream);
  return absl::OkStatus();
}

absl::Status DeviceAllocator::RecordKnownStreams(Address address) {
  absl::MutexLock lock(&mutex_);
  if (!health_.ok()) return absl::OkStatus();
  Block* block = allocated_.Find(address);
  if (block == nullptr) return NotOurs(address);
  timelines_.ForEachLasting([&](Stream stream) ABSL_NO_THREAD_SAFETY_ANALYSIS { AddStream(block, stream); });
  return absl::OkStatus();
}

void DeviceAllocator::AddStream(Block* block, Stream stream) {
  if (stream == block->extent->arena().stream()) return;
  block->has_other_streams = true;
  absl::InlinedVector<Stream, 2>& streams = other_streams_[block];
  if (std::find(streams.begin(), streams.end(), stream) == streams.end()) streams.push_back(stream);
}

std::vector<Stream> DeviceAllocator::StreamsOf(Address address) const {
  absl::MutexLock lock(&mutex_);
  Block* const block = health_.ok() ? allocated_.Find(address) : nullptr;
  if (block == nullptr) return {};
  std::vector<Stream> streams = {block->extent->arena().stream()};
  if (const auto others = other_streams_.find(block); others != other_streams_.end()) {
    streams.insert(streams.end(), others->second.begin(), others->second.end());
  }
  return streams;
}

absl::StatusOr<Bytes> DeviceAllocator::Trim(Bytes enough) {
  absl::MutexLock lock(&mutex_);
  return Guarded(&DeviceAllocator::GiveBack, &DeviceAllocator::TrimOnce, enough);
}

absl::StatusOr<Bytes> DeviceAllocator::GiveBack(absl::Status (DeviceAllocator::*once)(Bytes enough), Bytes enough) {
  const Bytes before = backing_->held();
  const int64_t failures = ledger_.statistics().num_driver_failures;
  absl::Status status = (this->*once)(enough);
  ledger_.Absorbed(status);
  // Also where the call went on in another way, since something may have stayed for it.
  if (ledger_.statistics().num_driver_failures > failures) status = (this->*once)(enough - (before - backing_->held()));
  CheckChange();
  if (!status.ok()) return status;
  return before - backing_->held();
}

absl::Status DeviceAllocator::TrimOnce(Bytes enough) {
  if (enough < kUnlimited) {
    timelines_.End();
    const absl::StatusOr<Bytes> passed = backing_->ReturnFree(enough);
    if (!passed.ok()) return passed.status();
    enough -= *passed;
  }
  if (enough <= Bytes(0)) return absl::OkStatus();
  absl::Status status = WaitForAllWork();
  status.Update(backing_->ReturnFree(enough).status());
  return status;
}

absl::Status DeviceAllocator::MarkUse() {
  absl::MutexLock lock(&mutex_);
  if (!health_.ok()) return health_;
  const int64_t failures = ledger_.statistics().num_driver_failures;
  use_marks_.MoveToNow(arenas_, timelines_);
  if (ledger_.statistics().num_driver_failures > failures) use_marks_.MoveToNow(arenas_, timelines_);
  return absl::OkStatus();
}

absl::StatusOr<Bytes> DeviceAllocator::ReturnIdle(Bytes enough) {
  absl::MutexLock lock(&mutex_);
  return Guarded(&DeviceAllocator::GiveBack, &DeviceAllocator::ReturnIdleOnce, enough);
}

absl::Status DeviceAllocator::ReturnIdleOnce(Bytes enough) {
  ledger_.Absorbed(PollAwaiting());
  return backing_->ReturnIdle(enough, use_marks_).status();
}

void DeviceAllocator::SetDriverCosts(const DriverCosts& costs) {
  absl::MutexLock lock(&mutex_);
  backing_->SetDriverCosts(costs);
}

void DeviceAllocator::SetDriverReserve(Bytes reserve) {
  absl::MutexLock lock(&mutex_);
  budget_.SetReserve(reserve);
}

void DeviceAllocator::SetOptions(const PolicyOptions& options) {
  absl::MutexLock lock(&mutex_);
  backing_->SetOptions(options);
}

void DeviceAllocator::SetRemapping(bool on) {
  absl::MutexLock lock(&mutex_);
  backing_->SetRemapping(on);
}

absl::Status DeviceAllocator::KeepInPlace(Address start, Bytes size, bool keep) {
  absl::MutexLock lock(&mutex_);
  return Guarded(&DeviceAllocator::KeepInPlaceLocked, start, size, keep);
}

absl::Status DeviceAllocator::KeepInPlaceLocked(Address start, Bytes size, bool keep) {
  absl::Status status = backing_->KeepInPlace(start, size, keep);
  CheckChange();
  return status;
}

void DeviceAllocator::SetLimit(Bytes limit, Bytes (*others)(void* context), void* context) {
  absl::MutexLock lock(&mutex_);
  budget_.SetLimit(limit, others, context);
}

Bytes DeviceAllocator::Limit() const {
  absl::MutexLock lock(&mutex_);
  return budget_.limit();
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

const OutOfMemoryReport& DeviceAllocator::LastOutOfMemory() { return ThreadsOutOfMemory(); }

absl::Status DeviceAllocator::MakeRoom(Arena& arena, Bytes size) {
  remedies_ = Remedies();
  absl::Status status = backing_->Extend(arena, size, Reach::kPassed);
  if (absl::IsResourceExhausted(status)) status = MakeRoomBehindStreamWaits(arena, size);
  if (absl::IsResourceExhausted(status) && budget_.reserve() > Bytes(0)) {
    status = backing_->Extend(arena, size, Reach::kIntoReserve);
  }
  if (!absl::IsResourceExhausted(status)) return status;
  ++ledger_.statistics().num_alloc_retries;
  status = MakeRoomByReclaiming(arena, size);
  if (absl::IsResourceExhausted(status)) status = MakeRoomBehindHostWaits(arena, size);
  return status;
}

absl::Status DeviceAllocator::MakeRoomBehindStreamWaits(Arena& arena, Bytes size) {
  const Bytes awaiting = Awaiting();
  ledger_.Absorbed(awaiting_.MakeOwnerWait(arena.stream(), ledger_.statistics().num_stream_waits,
                                           [this](Block* block) ABSL_NO_THREAD_SAFETY_ANALYSIS { Complete(block); }));
  remedies_.stream_waits = awaiting - Awaiting();
  if (HasRoom(arena, size)) return absl::OkStatus();
  return backing_->Extend(arena, size, Reach::kThroughStreamWaits);
}

absl::Status DeviceAllocator::MakeRoomByReclaiming(Arena& arena, Bytes size) {
  absl::Status status = absl::ResourceExhaustedError("nobody had memory to give back");
  if (reclaimer_ == nullptr) return status;
  struct Step {
    bool (Reclaimer::*reclaim)();
    Bytes Remedies::*gained;
  };
  for (const Step& step :
       {Step{&Reclaimer::ReleaseCaches, &Remedies::caches}, Step{&Reclaimer::CollectGarbage, &Remedies::garbage}}) {
    const Bytes free = FreeAnywhere();
    // Whoever gives memory back may call this allocator, from this thread or another.
    mutex_.Unlock();
    const bool some = (reclaimer_->*step.reclaim)();
    mutex_.Lock();
    // Broken meanwhile, by a call that others made. An error would have the request made once more.
    if (!health_.ok()) throw BrokenInvariant(absl::StrCat(health_.message()));
    if (!some) continue;
    ledger_.Absorbed(PollAwaiting());
    if (HasRoom(arena, size)) return absl::OkStatus();
    status = backing_->Extend(arena, size, Reach::kIntoReserve);
    if (!absl::IsResourceExhausted(status)) return status;
    remedies_.*step.gained = std::max(FreeAnywhere() - free, Bytes(0));
  }
  return status;
}

absl::Status DeviceAllocator::MakeRoomBehindHostWaits(Arena& arena, Bytes size) {
  const Bytes awaiting = Awaiting();
  // Free memory that other streams have yet to pass was to be had behind waits of this one.
  if (!awaiting_.empty() || timelines_.NeedsHost()) ledger_.Absorbed(WaitForAllWork());
  remedies_.host_waits = awaiting - Awaiting();
  if (HasRoom(arena, size)) return absl::OkStatus();
  return backing_->Extend(arena, size, Reach::kWithHostWaits);
}

void DeviceAllocator::Absorb(const absl::Status& failure) {
  ledger_.Absorbed(failure);
  CheckChange();
}

void DeviceAllocator::Defer(Block* block) {
  block->Apply(BlockStep::kDefer);
  ledger_.Deferred(*block, block->extent->arena().group());
  block->has_other_streams = false;
  const auto others = other_streams_.extract(block);
  for (Stream stream : others.mapped()) {
    if (stream.may_end) ledger_.Absorbed(timelines_.Get(stream).MarkIfWanted());
  }
  // A stream that could not be marked is marked later.
  ledger_.Absorbed(awaiting_.Add(block, others.mapped()));
}

void DeviceAllocator::Complete(Block* block) {
  Arena& arena = block->extent->arena();
  ledger_.Completed(*block, arena.group());
  PutBack(arena, block, BlockStep::kPass);
}

void DeviceAllocator::PutBack(Arena& arena, Block* block, BlockStep step) {
  const Address start = block->address;
  const Address end = block->end();
  Block* const free = arena.PutBack(block, step);
  if (free->extent->guests() > 0) [[unlikely]]
    backing_->BecameFree(free, start, end);
}

absl::Status DeviceAllocator::PollAwaiting() {
  return awaiting_.Poll([this](Block* block) ABSL_NO_THREAD_SAFETY_ANALYSIS { Complete(block); });
}

absl::Status DeviceAllocator::WaitForAllWork() {
  const auto ready = [this](Block* block) ABSL_NO_THREAD_SAFETY_ANALYSIS { Complete(block); };
  ++ledger_.statistics().num_sync_all_streams;
  if (timelines_.WaitForAll()) {
    awaiting_.Settle(ready);
    return absl::OkStatus();
  }
  return awaiting_.Synchronize(ready);
}

void DeviceAllocator::NoteOutOfMemory(Bytes requested) {
  Statistics& statistics = ledger_.statistics();
  ++statistics.num_ooms;
  const Bytes allocated(statistics.allocated_bytes[SizeGroup::kAll].current);
  const Bytes reserved(statistics.reserved_bytes[SizeGroup::kAll].current);
  const MemoryInfo device = DeviceMemory();
  ThreadsOutOfMemory() = OutOfMemoryReport{.requested = requested,
                                           .allocated = allocated,
                                           .awaiting = Awaiting(),
                                           .reserved = reserved,
                                           .limit = budget_.limit(),
                                           .device_free = device.free,
                                           .device_total = device.total,
                                           .largest_free = LargestFree(),
                                           .unusable = UnusableBytes(),
                                           .remedies = remedies_,
                                           .driver_failure = ledger_.latest_failure()};
}

Bytes DeviceAllocator::Awaiting() const {
  const Statistics& statistics = ledger_.statistics();
  return Bytes(statistics.active_bytes()[SizeGroup::kAll].current -
               statistics.allocated_bytes[SizeGroup::kAll].current);
}

MemoryInfo DeviceAllocator::DeviceMemory() {
  const absl::StatusOr<MemoryInfo> asked = device_.GetMemoryInfo();
  ledger_.Absorbed(asked.status());
  return asked.value_or(MemoryInfo{});
}

Bytes DeviceAllocator::FreeAnywhere() {
  const Statistics& statistics = ledger_.statistics();
  const Bytes reserved(statistics.reserved_bytes[SizeGroup::kAll].current);
  const Bytes active(statistics.active_bytes()[SizeGroup::kAll].current);
  return reserved - active + DeviceMemory().free;
}

Bytes DeviceAllocator::UnusableBytes() const {
  Bytes unusable;
  for (const Arena* arena : arenas_.all()) {
    for (const std::unique_ptr<Extent>& extent : arena->extents()) {
      for (const Block* block = extent->first_block(); block != nullptr; block = block->next) {
        if (block->IsFree()) unusable += block->size - MovablePart(*block);
      }
    }
  }
  return unusable;
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
