#include "allocator/device_allocator.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "allocator/check.h"
#include "allocator/movable_backing.h"
#include "allocator/segment_backing.h"

namespace frugal {
namespace {

SizeGroup GroupFor(Bytes size) { return size <= kSmallLimit ? SizeGroup::kSmall : SizeGroup::kLarge; }

absl::Status NotOurs(Address address) {
  return absl::NotFoundError(absl::StrFormat("no block that was handed out starts at %#x", address.value()));
}

}  // namespace

DeviceAllocator::DeviceAllocator(Device& device, AddressDirectory& directory, Reclaimer* reclaimer)
    : device_(device), reclaimer_(reclaimer), budget_(device), arenas_(ledger_), awaiting_(device) {
  absl::MutexLock lock(&mutex_);
  if (device.HasVirtualMemory()) {
    backing_ = std::make_unique<MovableBacking>(device, arenas_, ledger_, budget_, directory, this);
  } else {
    backing_ = std::make_unique<SegmentBacking>(device, arenas_, ledger_, budget_, directory, this);
  }
}

DeviceAllocator::~DeviceAllocator() = default;

absl::StatusOr<Allocation> DeviceAllocator::Allocate(Bytes requested, Stream stream, void* annotation) {
  const Bytes size = RoundUp(requested, kGrain);
  absl::MutexLock lock(&mutex_);
  absl::Status status = PollAwaiting();
  if (!status.ok()) return status;
  Arena& arena = arenas_.Get(stream, GroupFor(size));
  Block* block = arena.Take(size);
  if (block == nullptr) {
    status = MakeRoom(arena, size);
    CheckInDebugBuilds();
    if (absl::IsResourceExhausted(status)) NoteOutOfMemory(requested);
    if (!status.ok()) return status;
    block = arena.Take(size);
  }
  Allocation allocation = HandOut(block, requested, annotation);
  CheckInDebugBuilds();
  return allocation;
}

absl::StatusOr<Allocation> DeviceAllocator::Free(Address address) {
  absl::MutexLock lock(&mutex_);
  auto found = allocated_.find(address);
  if (found == allocated_.end()) return NotOurs(address);
  Block* block = found->second;
  allocated_.erase(found);
  ledger_.GivenBack(*block);
  Allocation was = Describe(*block);
  absl::Status status;
  if (block->other_streams == nullptr) {
    Complete(block, BlockStep::kReturn);
  } else {
    block->Apply(BlockStep::kDefer);
    status = awaiting_.Add(block);
  }
  CheckInDebugBuilds();
  if (!status.ok()) return status;
  return was;
}

absl::Status DeviceAllocator::RecordStream(Address address, Stream stream) {
  absl::MutexLock lock(&mutex_);
  auto found = allocated_.find(address);
  if (found == allocated_.end()) return NotOurs(address);
  Block& block = *found->second;
  if (stream == block.extent->arena().stream()) return absl::OkStatus();
  if (block.other_streams == nullptr) block.other_streams = std::make_unique<absl::InlinedVector<Stream, 2>>();
  for (Stream known : *block.other_streams) {
    if (known == stream) return absl::OkStatus();
  }
  block.other_streams->push_back(stream);
  return absl::OkStatus();
}

absl::StatusOr<Bytes> DeviceAllocator::Trim() {
  absl::MutexLock lock(&mutex_);
  absl::Status status = SynchronizeAwaiting();
  if (!status.ok()) return status;
  absl::StatusOr<Bytes> returned = backing_->ReturnFree();
  CheckInDebugBuilds();
  return returned;
}

void DeviceAllocator::SetLimit(Bytes limit, Bytes (*others)(void* context), void* context) {
  absl::MutexLock lock(&mutex_);
  budget_.SetLimit(limit, others, context);
}

void DeviceAllocator::SetObserver(Observer* observer) {
  absl::MutexLock lock(&mutex_);
  ledger_.SetObserver(observer);
}

Statistics DeviceAllocator::GetStatistics() const {
  absl::MutexLock lock(&mutex_);
  return ledger_.statistics();
}

void DeviceAllocator::ResetPeakStatistics() {
  absl::MutexLock lock(&mutex_);
  ledger_.statistics().ForEachCounter([](GroupedCounter& counter) { counter.ResetPeak(); });
}

void DeviceAllocator::ResetAccumulatedStatistics() {
  absl::MutexLock lock(&mutex_);
  ledger_.statistics().ResetAccumulated();
}

OutOfMemoryReport DeviceAllocator::LastOutOfMemory() const {
  absl::MutexLock lock(&mutex_);
  return last_out_of_memory_;
}

absl::Status DeviceAllocator::MakeRoom(Arena& arena, Bytes size) {
  absl::Status status = backing_->Extend(arena, size, Reach::kPassed);
  if (absl::IsResourceExhausted(status)) status = MakeRoomBehindStreamWaits(arena, size);
  if (!absl::IsResourceExhausted(status)) return status;
  ++ledger_.statistics().num_alloc_retries;
  status = MakeRoomByReclaiming(arena, size);
  if (absl::IsResourceExhausted(status)) status = MakeRoomBehindHostWaits(arena, size);
  return status;
}

absl::Status DeviceAllocator::MakeRoomBehindStreamWaits(Arena& arena, Bytes size) {
  absl::Status status = awaiting_.MakeOwnerWait(
      arena.stream(), ledger_.statistics().num_stream_waits,
      [this](Block* block) ABSL_NO_THREAD_SAFETY_ANALYSIS { Complete(block, BlockStep::kPass); });
  if (!status.ok() || HasRoom(arena, size)) return status;
  return backing_->Extend(arena, size, Reach::kThroughStreamWaits);
}

absl::Status DeviceAllocator::MakeRoomByReclaiming(Arena& arena, Bytes size) {
  absl::Status status = absl::ResourceExhaustedError("nobody had memory to give back");
  if (reclaimer_ == nullptr) return status;
  for (bool (Reclaimer::*reclaim)() : {&Reclaimer::ReleaseCaches, &Reclaimer::CollectGarbage}) {
    // Whoever gives memory back may call this allocator, from this thread or another.
    mutex_.Unlock();
    const bool some = (reclaimer_->*reclaim)();
    mutex_.Lock();
    if (!some) continue;
    status = PollAwaiting();
    if (!status.ok() || HasRoom(arena, size)) return status;
    status = backing_->Extend(arena, size, Reach::kThroughStreamWaits);
    if (!absl::IsResourceExhausted(status)) return status;
  }
  return status;
}

absl::Status DeviceAllocator::MakeRoomBehindHostWaits(Arena& arena, Bytes size) {
  absl::Status status = SynchronizeAwaiting();
  if (!status.ok() || HasRoom(arena, size)) return status;
  return backing_->Extend(arena, size, Reach::kWithHostWaits);
}

Allocation DeviceAllocator::HandOut(Block* block, Bytes requested, void* annotation) {
  block->requested = requested;
  block->annotation = annotation;
  allocated_.emplace(block->address, block);
  ledger_.HandedOut(*block);
  return Describe(*block);
}

void DeviceAllocator::Complete(Block* block, BlockStep step) {
  ledger_.Completed(*block);
  block->extent->arena().PutBack(block, step);
}

absl::Status DeviceAllocator::PollAwaiting() {
  if (awaiting_.empty()) return absl::OkStatus();
  return awaiting_.Poll([this](Block* block) ABSL_NO_THREAD_SAFETY_ANALYSIS { Complete(block, BlockStep::kPass); });
}

absl::Status DeviceAllocator::SynchronizeAwaiting() {
  if (awaiting_.empty()) return absl::OkStatus();
  ++ledger_.statistics().num_sync_all_streams;
  return awaiting_.Synchronize([this](Block* block)
                                   ABSL_NO_THREAD_SAFETY_ANALYSIS { Complete(block, BlockStep::kPass); });
}

Allocation DeviceAllocator::Describe(const Block& block) const {
  const Statistics& statistics = ledger_.statistics();
  return Allocation{block.address, block.size, block.requested,
                    Bytes(statistics.allocated_bytes[SizeGroup::kAll].current),
                    Bytes(statistics.reserved_bytes[SizeGroup::kAll].current)};
}

void DeviceAllocator::NoteOutOfMemory(Bytes requested) {
  Statistics& statistics = ledger_.statistics();
  ++statistics.num_ooms;
  const Bytes allocated(statistics.allocated_bytes[SizeGroup::kAll].current);
  const Bytes active(statistics.active_bytes[SizeGroup::kAll].current);
  const Bytes reserved(statistics.reserved_bytes[SizeGroup::kAll].current);
  // Only for the message: a device that cannot even be asked is reported as having nothing free.
  const MemoryInfo device = device_.GetMemoryInfo().value_or(MemoryInfo{});
  last_out_of_memory_ =
      OutOfMemoryReport{requested, allocated, active - allocated, reserved, budget_.limit(), device.free, device.total};
}

void DeviceAllocator::CheckInvariants() const {
  absl::MutexLock lock(&mutex_);
  CheckInvariantsLocked();
}

void DeviceAllocator::CheckInvariantsLocked() const {
  Bytes active;
  for (const Arena* arena : arenas_.all()) {
    arena->CheckInvariants();
    for (const std::unique_ptr<Extent>& extent : arena->extents()) {
      for (const Block* block = extent->first_block(); block != nullptr; block = block->next) {
        const bool in_use = block->state == BlockState::kAllocated || block->state == BlockState::kAwaiting;
        if (in_use) active += block->size;
        FRUGAL_CHECK((block->state == BlockState::kAllocated) == allocated_.contains(block->address));
      }
    }
  }
  FRUGAL_CHECK(active.count() == ledger_.statistics().active_bytes[SizeGroup::kAll].current);
  backing_->CheckInvariants();
}

void DeviceAllocator::CheckInDebugBuilds() const {
#ifndef NDEBUG
  CheckInvariantsLocked();
#endif
}

}  // namespace frugal
