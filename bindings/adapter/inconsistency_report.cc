#include "bindings/adapter/inconsistency_report.h"

#include <c10/util/Exception.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "bindings/adapter/torch_compat.h"

namespace frugal {
namespace {

std::string FigureLine(absl::string_view name, const GroupedCounter& counter) {
  const Counter& all = counter[SizeGroup::kAll];
  return absl::StrCat("  ", name, ": ", all.current, ", at most ", all.peak, "\n");
}

// The whole text, for its owner to read. By way of a file whose name nobody knows, since the folder may be one where
// others plant links and pipes at names that they can tell.
bool WriteWhole(const std::string& path, const std::string& text) {
  std::string unfinished = path + ".XXXXXX";
  const int file = mkstemp(unfinished.data());
  if (file < 0) return false;
  const bool written = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const bool closed = close(file) == 0;
  if (written && closed && std::rename(unfinished.c_str(), path.c_str()) == 0) return true;
  unlink(unfinished.c_str());
  return false;
}

}  // namespace

std::string ToText(const Inconsistency& inconsistency) {
  const Statistics& statistics = inconsistency.statistics;
  return absl::StrCat(
      "frugal_alloc found that the figures in its accounting of GPU ", inconsistency.gpu,
      " do not add up, and serves that GPU no more.\n\n",
      "The run goes on: tensors stay where they are, memory of theirs that is freed is not used again, and new memory\n"
      "on this GPU comes from PyTorch's native allocator. It may run out of memory earlier; start it again from its\n"
      "latest checkpoint when that suits, and please send this file to frugal_alloc's authors.\n\n",
      "what did not hold: ", inconsistency.health.message(), "\n", "torch: ", inconsistency.torch_version / 100, ".",
      inconsistency.torch_version % 100, "\n", "settings: ", inconsistency.settings, "\n",
      "process: ", static_cast<int64_t>(getpid()), "\n\nfigures of the GPU, in bytes:\n",
      FigureLine("allocated", statistics.allocated_bytes), FigureLine("reserved", statistics.reserved_bytes),
      "  stitches: ", statistics.num_stitches, "\n  stream waits: ", statistics.num_stream_waits,
      "\n  out of memory: ", statistics.num_ooms, "\n  calls that the driver failed: ", statistics.num_driver_failures,
      "\n");
}

std::string WriteReport(const Inconsistency& inconsistency, absl::string_view folder) {
  if (folder == "off") return "";
  // Without std::filesystem, which the C++ library of the oldest systems that torch is for has in no shared form.
  const absl::string_view slash = folder.empty() || absl::EndsWith(folder, "/") ? "" : "/";
  const std::string path =
      absl::StrCat(folder, slash, "frugal-inconsistent-", inconsistency.gpu, "-", getpid(), ".txt");
  if (WriteWhole(path, ToText(inconsistency))) return absl::StrCat("What is known is in ", path, ".");
  return absl::StrCat("A report could not be written to ", path, ": set report_dir to a folder that can be.");
}

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
