// What a driver says that it can is tried before it is relied on.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "allocator/port/policy_options.h"
#include "cuda/driver_device.h"
#include "cuda/second_try.h"

namespace frugal {
namespace {

// Handles of memory are at most so large.
constexpr Bytes kLargePiece = Pages(PolicyOptions().largest_piece).bytes();

std::string WhatIsLost(absl::string_view failure, bool with_rdma, bool shareable) {
  std::vector<std::string> lost;
  if (!with_rdma) lost.push_back("direct access by network cards (RDMA)");
  if (!shareable) lost.push_back("handles for other processes");
  return absl::StrCat("the driver fails to map memory as it says it can (", failure, "), so ours does without ",
                      absl::StrJoin(lost, " and "));
}

}  // namespace

void DriverDevice::TryVirtualMemory() {
  const CUmemAllocationProp wanted = allocation_;
  std::string failure;
  // WSL's driver before R615 fails to open memory that RDMA may reach, on some GPUs on which it says that it can
  // (pytorch#192330).
  for (const bool with_rdma : {true, false}) {
    if (!with_rdma && wanted.allocFlags.gpuDirectRDMACapable == 0) continue;
    for (const bool shareable : {true, false}) {
      if (!shareable && wanted.requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE) continue;
      allocation_ = wanted;
      if (!with_rdma) allocation_.allocFlags.gpuDirectRDMACapable = 0;
      if (!shareable) allocation_.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
      // What fails once may be earlier work's failure, which the driver reports by whichever call comes next.
      absl::Status status = MakeUpForOneFailure([this] { return TryMapping(kPageSize); });
      if (status.ok()) status = MakeUpForOneFailure([this] { return TryMapping(kLargePiece); });
      if (status.ok() || (absl::IsResourceExhausted(status) && MayBeFull())) {
        broken_promise_ = failure.empty() ? "" : WhatIsLost(failure, with_rdma, shareable);
        return;
      }
      if (failure.empty()) failure = absl::StrCat(status.message());
    }
  }
  virtual_memory_ = false;
  broken_promise_ =
      absl::StrCat("the driver fails to map memory, although it says it can (", failure,
                   "): whole segments of cudaMalloc are allocated, and free pieces of different ones cannot be joined");
}

// A device that is full now says nothing. Some Jetsons say "out of memory" with half of the host's to be had
// (unsloth-zoo#1235).
bool DriverDevice::MayBeFull() {
  if (unified_ == nullptr) return true;
  const absl::StatusOr<MemoryInfo> memory = GetMemoryInfo();
  return !memory.ok() || memory->free < MiB(64);
}

absl::Status DriverDevice::TryMapping(Bytes size) {
  const absl::StatusOr<Address> range = Reserve(size * 2);
  if (!range.ok()) return range.status();
  const absl::StatusOr<PhysicalHandle> handle = Create(size);
  absl::Status status = handle.status();
  // What is not given back stays lost.
  if (status.ok()) {
    Bytes mapped;
    for (; status.ok() && mapped < size * 2; mapped += status.ok() ? size : Bytes(0)) {
      status = Map(*range + mapped, size, *handle);
    }
    if (status.ok()) status = SetAccess(*range, mapped);
    if (mapped > Bytes(0)) status.Update(MakeUpForOneFailure([&] { return Unmap(*range, mapped); }));
    status.Update(MakeUpForOneFailure([&] { return Release(*handle); }));
  }
  status.Update(MakeUpForOneFailure([&] { return Unreserve(*range, size * 2); }));
  return status;
}

absl::Status DriverDevice::LearnWhatGroupCounts() {
  constexpr Bytes kTrial = MiB(64);
  const absl::StatusOr<UnifiedMemory::State> before = unified_->Look();
  if (!before.ok()) return before.status();
  // None has a limit; or the trial itself might be too much for it.
  if (before->group_limit == kUnlimited || before->group_left < kTrial * 4 || before->Room() < kTrial) {
    return absl::OkStatus();
  }
  const absl::StatusOr<Address> segment = Malloc(kTrial);
  if (!segment.ok()) return segment.status();
  const absl::StatusOr<UnifiedMemory::State> during = unified_->Look();
  absl::Status freed = MakeUpForOneFailure([&] { return Free(*segment); });
  if (!during.ok()) return during.status();
  if (!freed.ok()) return freed;
  unified_->SetGroupCountsGpu(during->group_current - before->group_current >= Bytes(kTrial.count() / 2));
  return absl::OkStatus();
}

}  // namespace frugal
