#include "bindings/leak_report.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace frugal {
namespace {

// More say nothing new: they are parts of the same leak.
constexpr size_t kMostLines = 10;

constexpr char kAdvice[] =
    "Something of each epoch is kept. The usual reasons: a loss or an output is stored as a tensor, with the graph "
    "that\n"
    "made it (store loss.item(), or the detached tensor); evaluation runs with gradients on, and its results are "
    "kept.\n";

std::string SizeText(double bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return absl::StrFormat("%.0f bytes", bytes);
  size_t unit = 0;
  for (bytes /= 1024; bytes >= 1024 && unit < std::size(kUnits) - 1; bytes /= 1024) ++unit;
  return absl::StrFormat("%.2f %s", bytes, kUnits[unit]);
}

std::string SizeText(Bytes size) { return SizeText(static_cast<double>(size.count())); }

std::string Counted(int64_t count, const char* noun) { return absl::StrCat(count, " ", noun, count == 1 ? "" : "s"); }

void AppendFindings(const GpuEpochs& gpu, const SiteNames& names, std::vector<SiteFinding>& findings) {
  for (const SiteHistory& site : gpu.epochs.sites) {
    if (names.IsExpectedToGrow(site.site)) continue;
    const LeakFinding leak = JudgeSite(site.boundaries);
    if (leak.verdict == LeakVerdict::kNone) continue;
    findings.push_back({gpu.gpu, names.Name(site.site), site.largest_block, leak, site.boundaries.back()});
  }
}

std::string HeadLine(const LeakReport& report) {
  const std::string after = absl::StrCat(" after ", Counted(report.epochs, "epoch"));
  if (report.epochs == 0) return "frugal_alloc: nothing is known about leaks: no epoch has ended (call epoch_end())\n";
  if (report.findings.empty()) {
    const bool sure = report.epochs >= kFirstLeakEpoch;
    return absl::StrCat("frugal_alloc: no leak", after,
                        sure ? "" : absl::StrCat("; one can be told after ", kFirstLeakEpoch), "\n");
  }
  const LeakVerdict verdict = report.findings.front().leak.verdict;
  double rate = 0;
  for (const SiteFinding& finding : report.findings) {
    if (finding.leak.verdict == verdict) rate += finding.leak.bytes_per_epoch;
  }
  return absl::StrCat("frugal_alloc: ", verdict == LeakVerdict::kLeak ? "leak" : "perhaps a leak", " of ",
                      SizeText(rate), " per epoch,", after, "\n");
}

std::string Line(const SiteFinding& finding) {
  return absl::StrFormat("  %-7s %s: %s per epoch; %s kept in %s of up to %s, from %s\n",
                         finding.leak.verdict == LeakVerdict::kLeak ? "leak" : "suspect",
                         finding.site.empty() ? "no named part" : finding.site, SizeText(finding.leak.bytes_per_epoch),
                         SizeText(finding.latest.survivors), Counted(finding.latest.surviving_blocks, "block"),
                         SizeText(finding.largest_block), Counted(finding.latest.surviving_epochs, "epoch"));
}

std::string TextOf(const LeakReport& report, absl::Span<const GpuEpochs> gpus) {
  std::string text = HeadLine(report);
  for (const GpuEpochs& gpu : gpus) {
    absl::StrAppend(&text, "GPU ", gpu.gpu, ": ", SizeText(gpu.epochs.live), " in use\n");
    size_t lines = 0;
    size_t unsaid = 0;
    for (const SiteFinding& finding : report.findings) {
      if (finding.gpu != gpu.gpu) continue;
      if (lines < kMostLines) {
        absl::StrAppend(&text, Line(finding));
        ++lines;
      } else {
        ++unsaid;
      }
    }
    if (unsaid > 0) absl::StrAppend(&text, "  and ", unsaid, " more\n");
  }
  if (!report.findings.empty()) text += kAdvice;
  return text;
}

}  // namespace

LeakReport MakeLeakReport(absl::Span<const GpuEpochs> gpus, const SiteNames& names) {
  LeakReport report;
  for (const GpuEpochs& gpu : gpus) {
    report.epochs = std::max(report.epochs, gpu.epochs.epochs_ended);
    AppendFindings(gpu, names, report.findings);
  }
  std::stable_sort(report.findings.begin(), report.findings.end(), [](const SiteFinding& a, const SiteFinding& b) {
    return std::tuple(a.leak.verdict, a.leak.bytes_per_epoch) > std::tuple(b.leak.verdict, b.leak.bytes_per_epoch);
  });
  report.text = TextOf(report, gpus);
  return report;
}

}  // namespace frugal
