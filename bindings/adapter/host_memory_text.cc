#include "bindings/adapter/host_memory_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "allocator/port/format_bytes.h"

namespace frugal {
namespace {

std::string DescribeGroup(const UnifiedMemory::State& host) {
  if (host.group_limit == kUnlimited) return "";
  if (!host.group_counts_gpu) {
    return absl::StrCat(" The control group of this process may have ", FormatBytes(host.group_limit),
                        ", but the driver's memory does not count there, so that does not limit the GPU's.");
  }
  return absl::StrCat(" The control group of this process may have ", FormatBytes(host.group_limit), ", of which ",
                      FormatBytes(host.group_left), " are left (", FormatBytes(host.group_reserve), " of that kept).");
}

}  // namespace

std::string DescribeHostMemory(const UnifiedMemory::State& host, Bytes on_gpu) {
  return absl::StrCat(
      "The GPU's memory is the host's, ", FormatBytes(host.total), ": this process has ", FormatBytes(on_gpu),
      " for the GPU and ", FormatBytes(host.own),
      " of pageable memory; other processes, pinned memory and the system have ",
      FormatBytes(std::max(host.total - host.available - on_gpu - host.own, Bytes(0))), "; ",
      FormatBytes(host.available), " are available, ", FormatBytes(std::max(host.available - host.free, Bytes(0))),
      " of that by dropping cached files and none by swapping. ", FormatBytes(std::min(host.reserve, host.available)),
      " of that are kept for the host (host_reserve), which would swap, ", "hang or kill programs without.",
      DescribeGroup(host));
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
