#include "bindings/adapter/gpu_sleep.h"

#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>

#include <utility>

#include "absl/container/btree_map.h"
#include "absl/strings/str_cat.h"
#include "allocator/port/format_bytes.h"

namespace frugal {
namespace {

constexpr char kCaptured[] =
    "memory cannot fall asleep while a CUDA graph may be captured, since that waits for all work of the GPU: call "
    "sleep() before or after the capture";

Bytes SizeOf(absl::Span<const AddressRange> ranges) {
  Bytes size;
  for (const AddressRange& range : ranges) size += range.size;
  return size;
}

absl::Status WaitForGpu(c10::DeviceIndex device) {
  const c10::cuda::CUDAGuard guard(device);
  const c10::cuda::CUDAStreamCaptureModeGuard relaxed(cudaStreamCaptureModeRelaxed);
  const cudaError_t failed = cudaDeviceSynchronize();
  if (failed == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("GPU ", static_cast<int>(device), ": ", cudaGetErrorString(failed)));
}

// What host_copies() returned, which may have failed to wait for what it had begun: memory below that must not go.
absl::Status Ended(GpuMemory& gpu, absl::Status status) {
  if (!status.ok()) status.Update(WaitForGpu(gpu.ordinal()));
  return status;
}

// A block that is given back while asleep needs no copy, nor does one that is awake.
void KeepCopiesOfAsleep(GpuMemory& gpu) {
  std::vector<AddressRange> asleep;
  for (const Sleep::AsleepBlock& sleeper : gpu.allocator().sleep().Asleep()) {
    asleep.push_back({sleeper.block.address, sleeper.block.size});
  }
  gpu.host_copies().KeepOnly(asleep);
}

// What the block has memory for.
void AddAwakeParts(const Sleep::AsleepBlock& sleeper, std::vector<AddressRange>& parts) {
  Address from = sleeper.block.address;
  for (const AddressRange& lacking : sleeper.lacking) {
    if (from < lacking.address) parts.push_back({from, lacking.address - from});
    from = lacking.address + lacking.size;
  }
  const Address end = sleeper.block.address + sleeper.block.size;
  if (from < end) parts.push_back({from, end - from});
}

}  // namespace

// --- FallingAsleep

absl::Status FallingAsleep::Begin() {
  FindHeld();
  std::vector<AddressRange> ranges;
  absl::Status status = Choose(ranges);
  if (!status.ok()) return status;
  Divide(ranges);
  KeepCopiesOfAsleep(gpu_);
  status = gpu_.host_copies().Reserve(copied_, request_.host);
  if (!status.ok()) status.Update(Undo());
  return status;
}

void FallingAsleep::FindHeld() {
  if (!request_.held.has_value()) return;
  for (const Address address : *request_.held) {
    const std::optional<BlockView> block = gpu_.allocator().inspect().FindBlock(address);
    if (block.has_value()) held_.insert(block->address);
  }
}

bool FallingAsleep::IsHeld(Address block, Tags::Id tag) const {
  // Of a pool graphs need all, whoever holds what.
  if (block == Address()) return true;
  return request_.held.has_value() ? held_.contains(block) : tag != Tags::kNone;
}

absl::Status FallingAsleep::Choose(std::vector<AddressRange>& ranges) {
  absl::Status status = absl::UnavailableError(kCaptured);
  const auto choose = [this](Address block, Tags::Id tag) {
    return Means(block, tag) && (chosen_.insert(block), block != Address() || request_.no_pools.empty());
  };
  routing_.WithoutCapture(gpu_.ordinal(), [&] {
    // The policy waits for the streams that it knows.
    status = WaitForGpu(gpu_.ordinal());
    if (!status.ok()) return;
    absl::StatusOr<std::vector<AddressRange>> chosen = gpu_.allocator().sleep().FallAsleep(choose, &again_);
    status = chosen.status();
    if (chosen.ok()) ranges = *std::move(chosen);
  });
  if (status.ok() && chosen_.contains(Address()) && !request_.no_pools.empty()) {
    status = absl::FailedPreconditionError(request_.no_pools);
    status.Update(Undo());
  }
  return status;
}

void FallingAsleep::Divide(const std::vector<AddressRange>& ranges) {
  absl::btree_map<Address, Sleep::AsleepBlock> asleep;
  for (const Sleep::AsleepBlock& sleeper : gpu_.allocator().sleep().Asleep()) {
    asleep.emplace(sleeper.block.address, sleeper);
  }
  for (const AddressRange& range : ranges) {
    const auto after = asleep.upper_bound(range.address);
    if (after == asleep.begin()) continue;
    const Sleep::AsleepBlock& block = std::prev(after)->second;
    // Given back meanwhile.
    if (range.address >= block.block.address + block.block.size) continue;
    SleptBytes& bytes = by_tag_[block.block.tag];
    bytes.slept += range.size;
    (Drops(block) ? bytes.dropped : bytes.copied) += range.size;
    // Where a wake could not be undone, what slept has memory without its contents.
    const bool slept = std::find(again_.begin(), again_.end(), range) != again_.end();
    if (!Drops(block) && !(slept && gpu_.host_copies().Covers(range))) copied_.push_back(range);
  }
}

absl::Status FallingAsleep::Copy() { return Ended(gpu_, gpu_.host_copies().CopyOut(copied_)); }

absl::Status FallingAsleep::Undo() {
  absl::Status status =
      gpu_.allocator().sleep().WakeUp([this](Address block, Tags::Id /*tag*/) { return chosen_.contains(block); });
  if (status.ok()) KeepCopiesOfAsleep(gpu_);
  return status;
}

absl::Status FallingAsleep::Commit() {
  for (const Sleep::AsleepBlock& sleeper : gpu_.allocator().sleep().Asleep()) {
    if (request_.tags.Means(sleeper.block.tag) && Drops(sleeper)) {
      gpu_.host_copies().Drop({{sleeper.block.address, sleeper.block.size}});
    }
  }
  const absl::StatusOr<Bytes> gone = gpu_.allocator().sleep().LetGo();
  if (gone.ok()) {
    given_back_ = *gone;
  } else if (absl::IsDataLoss(gone.status())) {
    return gone.status();
  } else {
    Warn("still holds memory below what sleeps, since the driver did not take it back", gone.status());
  }
  if (request_.poison) FillDropped();
  return absl::OkStatus();
}

void FallingAsleep::FillDropped() {
  std::vector<AddressRange> left;
  // What has gone is filled as it wakes. The rest, too: another day it may go.
  const auto drops = [this](Address block, Tags::Id tag) {
    return block != Address() && chosen_.contains(block) && request_.Drops(tag);
  };
  for (const Sleep::StayedPart& part : gpu_.allocator().sleep().Stayed(drops)) {
    if (part.why != Sleep::Why::kBesideAwake || part.block.asleep) continue;
    left.push_back({part.block.address, part.block.size});
  }
  for (const Sleep::AsleepBlock& sleeper : gpu_.allocator().sleep().Asleep()) {
    if (!chosen_.contains(sleeper.block.address) || !Drops(sleeper)) continue;
    AddAwakeParts(sleeper, left);
  }
  const absl::Status status = Ended(gpu_, gpu_.host_copies().Fill(left));
  if (!status.ok()) Warn("could not fill with NaN what is dropped and stays awake", status);
}

void FallingAsleep::Warn(absl::string_view what, const absl::Status& failure) {
  warnings_.push_back(
      absl::StrCat("frugal_alloc, GPU ", static_cast<int>(gpu_.ordinal()), ": ", what, ": ", failure.message()));
}

SleptGpu FallingAsleep::Result() const {
  SleptGpu result;
  result.gpu = gpu_.ordinal();
  result.by_tag = by_tag_;
  result.given_back = given_back_;
  result.host = gpu_.host_copies().host();
  const auto means = [this](Address block, Tags::Id tag) { return Means(block, tag); };
  for (const Sleep::StayedPart& part : gpu_.allocator().sleep().Stayed(means)) {
    result.stayed[{part.block.tag, part.block.site, part.why}] += part.size;
  }
  for (const SegmentView& segment : gpu_.allocator().inspect().Snapshot()) {
    for (const BlockView& block : segment.blocks) {
      if (block.state != BlockView::State::kAllocated || block.asleep) continue;
      if (!request_.tags.Means(block.tag) || IsHeld(block.address, block.tag)) continue;
      result.stayed[{block.tag, block.site, std::nullopt}] += block.size;
    }
  }
  if (!request_.tags.only.has_value()) {
    result.native = Bytes(gpu_.native_share().Stats().allocated_bytes[0].current);
  }
  return result;
}

// --- Waking

absl::Status Waking::Begin() {
  const auto means = [this](Address /*block*/, Tags::Id tag) { return tags_.Means(tag); };
  Sleep sleep = gpu_.allocator().sleep();
  for (const Sleep::AsleepBlock& sleeper : sleep.Asleep()) {
    if (means(sleeper.block.address, sleeper.block.tag)) AddAwakeParts(sleeper, left_);
  }
  absl::StatusOr<std::vector<AddressRange>> lacking = sleep.TakeBack(means);
  if (absl::IsResourceExhausted(lacking.status())) {
    Bytes wanted;
    for (const Sleep::AsleepBlock& sleeper : sleep.Asleep()) {
      if (means(sleeper.block.address, sleeper.block.tag)) wanted += SizeOf(sleeper.lacking);
    }
    if (gpu_.Reclaim(wanted)) lacking = sleep.TakeBack(means);
    if (!lacking.ok()) {
      const absl::StatusOr<MemoryInfo> memory = gpu_.device().GetMemoryInfo();
      return absl::ResourceExhaustedError(absl::StrCat(
          "GPU ", static_cast<int>(gpu_.ordinal()), ": ", FormatBytes(wanted), " sleep and are to wake, and ",
          memory.ok() ? FormatBytes(memory->free) + " are free" : "so much is not free",
          ": free memory first, wake fewer tags, or let other tags sleep"));
    }
  }
  if (!lacking.ok()) return lacking.status();
  ranges_ = *std::move(lacking);
  return absl::OkStatus();
}

absl::Status Waking::Copy(bool poison) {
  absl::Status status = poison ? Ended(gpu_, gpu_.host_copies().Fill(ranges_)) : absl::OkStatus();
  if (!status.ok()) return status;
  absl::StatusOr<Bytes> copied = gpu_.host_copies().CopyIn(ranges_);
  if (copied.ok()) copied_ = *copied;
  if (copied.ok()) copied = gpu_.host_copies().CopyIn(left_);
  return Ended(gpu_, copied.status());
}

absl::Status Waking::Undo() { return gpu_.allocator().sleep().LetGo().status(); }

absl::Status Waking::Finish() {
  absl::Status status =
      gpu_.allocator().sleep().WakeUp([this](Address /*block*/, Tags::Id tag) { return tags_.Means(tag); });
  if (status.ok()) KeepCopiesOfAsleep(gpu_);
  return status;
}

WokenGpu Waking::Result() const { return {gpu_.ordinal(), SizeOf(ranges_), copied_}; }

// --- ReadAsleep

absl::Status ReadAsleep(GpuMemory& gpu, const Sleep::AsleepBlock& sleeper, AddressRange range, char* to) {
  const Address end = range.address + range.size;
  Address done = range.address;
  // What it does not lack lies on the GPU.
  const auto read_awake = [&](Address until) {
    if (until <= done) return absl::OkStatus();
    const c10::cuda::CUDAGuard guard(gpu.ordinal());
    const cudaError_t failed = cudaMemcpy(to + (done - range.address).count(), done.pointer(),
                                          static_cast<size_t>((until - done).count()), cudaMemcpyDeviceToHost);
    return failed == cudaSuccess ? absl::OkStatus() : absl::InternalError(cudaGetErrorString(failed));
  };
  for (const AddressRange& lacking : sleeper.lacking) {
    const Address from = std::max(lacking.address, range.address);
    const Address until = std::min(lacking.address + lacking.size, end);
    if (from >= until) continue;
    absl::Status status = read_awake(from);
    if (!status.ok()) return status;
    if (gpu.host_copies().Read({from, until - from}, to + (from - range.address).count()) < until - from) {
      return absl::FailedPreconditionError("it sleeps, and was not copied when it fell asleep");
    }
    done = until;
  }
  return read_awake(end);
}

}  // namespace frugal
