#include "bindings/adapter/host_memory_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace frugal {
namespace {

std::string Size(Bytes size) {
  return c10::CachingAllocator::format_size(static_cast<uint64_t>(std::max<int64_t>(size.count(), 0)));
}

std::string DescribeGroup(const UnifiedMemory::State& host) {
  if (host.group_limit == kUnlimited) return "";
  if (!host.group_counts_gpu) {
    return absl::StrCat(" The control group of this process may have ", Size(host.group_limit),
                        ", but the driver's memory does not count there, so that does not limit the GPU's.");
  }
  return absl::StrCat(" The control group of this process may have ", Size(host.group_limit), ", of which ",
                      Size(host.group_left), " are left (", Size(host.group_reserve), " of that kept).");
}

}  // namespace

std::string DescribeHostMemory(const UnifiedMemory::State& host, Bytes on_gpu) {
  return absl::StrCat(
      "The GPU's memory is the host's, ", Size(host.total), ": this process has ", Size(on_gpu), " for the GPU and ",
      Size(host.own), " of pageable memory; other processes, pinned memory and the system have ",
      Size(host.total - host.available - on_gpu - host.own), "; ", Size(host.available), " are available, ",
      Size(host.available - host.free), " of that by dropping cached files and none by swapping. ",
      Size(std::min(host.reserve, host.available)), " of that are kept for the host (host_reserve), which would swap, ",
      "hang or kill programs without.", DescribeGroup(host));
}

std::string DescribeHostMemory(GpuMemory& gpu) {
  const UnifiedMemory* const unified = gpu.device().unified();
  if (unified == nullptr) return "";
  const absl::StatusOr<UnifiedMemory::State> host = unified->Look();
  if (!host.ok()) return absl::StrCat("The GPU's memory is the host's, and ", host.status().message(), ".");
  const Bytes ours(gpu.allocator().GetStatistics().reserved_bytes[SizeGroup::kAll].current);
  return DescribeHostMemory(*host, ours + gpu.native_share().Reserved());
}

}  // namespace frugal
