#include "bindings/adapter/snapshot.h"

#include <c10/util/Exception.h>
#include <c10/util/env.h>

#include <algorithm>
#include <tuple>

#include "bindings/adapter/history.h"
#include "bindings/adapter/private_pools.h"

namespace frugal {
namespace {

caching_types::BlockInfo ToBlockInfo(const BlockView& block) {
  caching_types::BlockInfo info;
  info.size = static_cast<size_t>(block.size.count());
  info.requested_size = static_cast<size_t>(block.requested.count());
  info.allocated = block.state == BlockView::State::kAllocated;
  info.active = info.allocated || block.state == BlockView::State::kAwaitingStreams;
  if (block.annotation != nullptr) {
    info.context_when_allocated = static_cast<const BlockNote*>(block.annotation)->context;
  }
  return info;
}

caching_types::SegmentInfo ToSegmentInfo(c10::DeviceIndex device, const SegmentView& segment) {
  caching_types::SegmentInfo info;
  info.device = device;
  info.address = segment.address.value();
  info.total_size = static_cast<size_t>(segment.size.count());
  info.stream = reinterpret_cast<cudaStream_t>(segment.stream.id);
  info.owner_private_pool_id = ToMempoolId(segment.pool);
  info.is_large = !segment.small;
  info.is_expandable = segment.mapped;
  info.blocks.reserve(segment.blocks.size());
  for (const BlockView& block : segment.blocks) {
    info.blocks.push_back(ToBlockInfo(block));
    const caching_types::BlockInfo& added = info.blocks.back();
    if (added.allocated) info.allocated_size += added.size;
    if (added.active) {
      info.active_size += added.size;
      info.requested_size += added.requested_size;
    }
  }
  return info;
}

}  // namespace

bool NcclRegistersEverySegment() {
  constexpr char kVariable[] = "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK";
  if (c10::utils::check_env(kVariable) != true) return false;
  TORCH_WARN_ONCE("frugal_alloc: memory snapshots leave out its memory while ", kVariable,
                  " is set, because NCCL cannot register memory that is remapped; with the setting remap:off it can");
  return true;
}

void AddSegments(std::vector<caching_types::SegmentInfo>& segments, c10::DeviceIndex device,
                 const std::vector<SegmentView>& ours, bool mapped_too) {
  for (const SegmentView& segment : ours) {
    if (mapped_too || !segment.mapped) segments.push_back(ToSegmentInfo(device, segment));
  }
  std::sort(segments.begin(), segments.end(),
            [](const auto& a, const auto& b) { return std::tie(a.device, a.address) < std::tie(b.device, b.address); });
}

}  // namespace frugal
