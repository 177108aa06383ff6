#include "bindings/replay/watcher.h"

#include <c10/cuda/CUDACachingAllocator.h>

#include <algorithm>
#include <vector>

#include "bindings/adapter/torch_compat.h"

namespace frugal::replay {
namespace {

using caching_types::BlockInfo;
using caching_types::SegmentInfo;

Run::State StateOf(const BlockInfo& block) {
  if (block.allocated) return Run::State::kLive;
  return block.active ? Run::State::kAwaiting : Run::State::kFree;
}

// Whether they lie in one range, of which the addresses between them are a part.
bool BelongTogether(const SegmentInfo& one, const SegmentInfo& next) {
  return one.is_expandable && next.is_expandable && one.stream == next.stream && one.is_large == next.is_large;
}

void Append(std::vector<Run>& runs, const Run& run) {
  Run* last = runs.empty() ? nullptr : &runs.back();
  if (last != nullptr && last->state == run.state && last->address + last->bytes == run.address) {
    last->bytes += run.bytes;
  } else {
    runs.push_back(run);
  }
}

std::vector<Run> RunsOf(std::vector<SegmentInfo> segments) {
  std::sort(segments.begin(), segments.end(),
            [](const SegmentInfo& one, const SegmentInfo& other) { return one.address < other.address; });
  std::vector<Run> runs;
  const SegmentInfo* previous = nullptr;
  for (const SegmentInfo& segment : segments) {
    if (previous != nullptr && BelongTogether(*previous, segment)) {
      const uint64_t end = previous->address + previous->total_size;
      if (end < segment.address) Append(runs, Run{end, segment.address - end, Run::State::kHole});
    }
    uint64_t address = segment.address;
    for (const BlockInfo& block : segment.blocks) {
      Append(runs, Run{address, block.size, StateOf(block)});
      address += block.size;
    }
    previous = &segment;
  }
  return runs;
}

}  // namespace

Costs Difference(const Costs& end, const Costs& begin) {
  Costs difference;
  difference.driver_ns = end.driver_ns - begin.driver_ns;
  difference.host_ns = end.host_ns - begin.host_ns;
  for (size_t kind = 0; kind < kCallKinds.size(); ++kind) {
    difference.driver_calls[kind] = end.driver_calls[kind] - begin.driver_calls[kind];
  }
  return difference;
}

Watcher::Watcher(const Request& request, const Gpu& gpu, Result& result)
    : request_(request), gpu_(gpu), result_(result) {
  result.samples.resize(request.sample_count);
}

void Watcher::Before(uint64_t event) {
  if (event == request_.steady_from) steady_begin_ = gpu_.CostsSoFar();
}

void Watcher::After(uint64_t event) {
  const uint64_t peak = gpu_.MemoryPeak();
  if (peak > result_.peak_reserved_bytes) {
    result_.peak_reserved_bytes = peak;
    result_.peak_reserved_at = event;
    result_.driver_ns_to_peak = gpu_.CostsSoFar().driver_ns;
  }
  if (request_.sample_count > 0) {
    uint64_t& sample = result_.samples[event * request_.sample_count / request_.event_count];
    sample = std::max(sample, gpu_.MemoryUsed());
  }
  if (event == request_.picture_at) TakePicture();
}

void Watcher::Finish() {
  if (request_.steady_from >= request_.event_count) return;
  result_.steady = Difference(gpu_.CostsSoFar(), steady_begin_);
  for (uint64_t event = request_.steady_from; event < request_.event_count; ++event) {
    if (request_.events[event].operation == Operation::kAllocate) ++result_.steady_allocations;
  }
}

void Watcher::TakePicture() {
  auto* allocator = c10::cuda::CUDACachingAllocator::get();
  result_.runs = RunsOf(TakeSnapshot(*allocator, kDefaultPool, /*include_traces=*/false).segments);
}

}  // namespace frugal::replay
