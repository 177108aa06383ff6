#include "bindings/torch/refusal.h"

#include <c10/util/Exception.h>

#include <string>

#include "bindings/torch/inconsistency_report.h"
#include "bindings/torch/torch_compat.h"

namespace frugal {

void TellOfRefusal(GpuMemory& gpu, const absl::Status& status, const Settings& settings) {
  gpu.statistics().BeginPeriod();
  const int ordinal = gpu.ordinal();
  if (!absl::IsDataLoss(status)) {
    TORCH_WARN("frugal_alloc: the driver fails on GPU ", ordinal, " (", status.message(),
               "); what cannot be had otherwise comes from PyTorch's native allocator");
    return;
  }
  const std::string written =
      WriteReport({ordinal, status, gpu.allocator().GetStatistics(), ToText(settings), 200 + FRUGAL_TORCH_MINOR},
                  settings.report_dir);
  TORCH_WARN("frugal_alloc found that the figures in its accounting of GPU ", ordinal, " do not add up (",
             status.message(), "). The run goes on with PyTorch's native allocator for new memory on this GPU. ",
             written);
}

}  // namespace frugal
