#include "tests/load/loaded_device.h"

#include <iterator>
#include <utility>

namespace frugal {

LoadedDevice::LoadedDevice(Bytes memory, AddressDirectory& directory, const PolicyOptions& policy,
                           const std::string& faults)
    : device_({.memory = memory}),
      directory_(directory),
      allocator_(std::make_unique<DeviceAllocator>(device_, directory, this)) {
  allocator_->settings().SetCheckLevel(CheckLevel::kFast);
  allocator_->settings().SetOptions(policy);
  Expect(device_.SetFaults(faults), "the fault plan is understood");
}

std::optional<HeldBlock> LoadedDevice::Allocate(Bytes size, Stream stream) {
  ++operations_;
  absl::StatusOr<Allocation> allocation = allocator_->Allocate(size, stream);
  if (!allocation.ok()) {
    // Where calls fail, a request can meet two that do, and then has the driver's own error.
    const bool out_of_memory = absl::IsResourceExhausted(allocation.status());
    Expect(out_of_memory || device_.faults() > 0, "a request that is refused is out of memory");
    if (out_of_memory) ++refused_;
    return std::nullopt;
  }
  ++allocated_;
  const HeldBlock block{allocation->address, allocation->size};
  Claim(block);
  device_.MakeBusyUntil(stream, device_.now() + sim::Nanoseconds(20));
  return block;
}

void LoadedDevice::Free(const HeldBlock& block) {
  ++operations_;
  Disclaim(block);
  const absl::StatusOr<Bytes> freed = allocator_->Free(block.address);
  Expect(freed.ok() && *freed == block.size, "a block that was handed out can be freed");
  ++freed_;
}

void LoadedDevice::Use(const HeldBlock& block, Stream stream, int64_t duration) {
  ++operations_;
  device_.MakeBusyUntil(stream, device_.now() + sim::Nanoseconds(duration));
  Expect(allocator_->RecordStream(block.address, stream).ok(), "a stream of a block can be recorded");
}

void LoadedDevice::Cache(const HeldBlock& block) {
  absl::MutexLock lock(&mutex_);
  cache_.push_back(block);
}

bool LoadedDevice::ReleaseCaches() {
  std::vector<HeldBlock> released;
  {
    absl::MutexLock lock(&mutex_);
    released.swap(cache_);
  }
  for (const HeldBlock& block : released) Free(block);
  return !released.empty();
}

void LoadedDevice::GiveBack(uint64_t way) {
  ++operations_;
  absl::Status status;
  if (way % 3 == 0) status = allocator_->MarkUse();
  if (way % 3 == 1) status = allocator_->ReturnIdle(MiB(8)).status();
  if (way % 3 == 2) status = allocator_->Trim(MiB(8)).status();
  Expect(status.ok() || device_.faults() > 0, "memory can be given back");
}

void LoadedDevice::Look(const HeldBlock& block) {
  ++operations_;
  Expect(directory_.Find(block.address) == allocator_.get(), "the directory knows whose a block is");
  const std::optional<BlockView> view = allocator_->inspect().FindBlock(block.address);
  Expect(view.has_value() && view->address == block.address && view->size == block.size, "a block is found");
  const Statistics statistics = allocator_->GetStatistics();
  Expect(statistics.reserved_bytes[SizeGroup::kAll].current >= statistics.active_bytes()[SizeGroup::kAll].current,
         "no more is active than is reserved");
}

void LoadedDevice::End() {
  ReleaseCaches();
  allocator_->inspect().CheckInvariants();
  const Statistics statistics = allocator_->GetStatistics();
  {
    absl::MutexLock lock(&mutex_);
    if (!claims_.empty()) problems_.push_back("a block was forgotten");
  }
  Expect(statistics.allocated_bytes[SizeGroup::kAll].current == 0, "nothing is allocated at the end");
  Expect(statistics.allocation[SizeGroup::kAll].allocated == allocated_, "every allocation was counted once");
  Expect(statistics.allocation[SizeGroup::kAll].freed == freed_, "every free was counted once");
  Expect(statistics.num_ooms == refused_, "every refusal was counted once");
  Expect(device_.used() == allocator_->inspect().Held(), "what is held is what the device has given");
  Expect(device_.SetFaults(""), "faults end");
  device_.AdvanceTo(device_.now() + sim::Nanoseconds(1'000'000));
  Expect(allocator_->Trim().ok() && device_.used() == Bytes(0), "all memory goes back");
  allocator_.reset();
  Expect(device_.live_events() == 0, "all events go back");
}

uint64_t LoadedDevice::driver_calls() const {
  uint64_t calls = 0;
  for (size_t kind = 0; kind < sim::kCallKindNames.size(); ++kind) {
    calls += device_.calls(static_cast<sim::CallKind>(kind));
  }
  return calls;
}

std::vector<std::string> LoadedDevice::problems() const {
  absl::MutexLock lock(&mutex_);
  return problems_;
}

void LoadedDevice::Claim(const HeldBlock& block) {
  absl::MutexLock lock(&mutex_);
  const auto after = claims_.lower_bound(block.address);
  const bool clear = (after == claims_.end() || block.address + block.size <= after->first) &&
                     (after == claims_.begin() || std::prev(after)->first + std::prev(after)->second <= block.address);
  if (!clear) problems_.push_back("a byte was handed out twice");
  claims_[block.address] = block.size;
}

void LoadedDevice::Disclaim(const HeldBlock& block) {
  absl::MutexLock lock(&mutex_);
  claims_.erase(block.address);
}

void LoadedDevice::Expect(bool holds, const char* what) {
  if (holds) return;
  absl::MutexLock lock(&mutex_);
  problems_.push_back(std::string("does not hold: ") + what);
}

}  // namespace frugal
