#include "bindings/tracking/leak_report.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "allocator/births/line_history.h"
#include "allocator/port/format_bytes.h"

namespace frugal {
namespace {

// More say nothing new: they are parts of the same leak.
constexpr size_t kMostLines = 10;

constexpr char kAdvice[] =
    "Something of each epoch is kept. The usual reasons: a loss or an output is stored as a tensor, with the graph "
    "that\n"
    "made it (store loss.item(), or the detached tensor); evaluation runs with gradients on, and its results are "
    "kept.\n";

std::string Counted(int64_t count, const char* noun) { return absl::StrCat(count, " ", noun, count == 1 ? "" : "s"); }

std::string NameOf(SiteId site, const SiteTable& sites) {
  const CodeLine line = sites.UserLine(site);
  if (!line.file.empty()) return absl::StrCat(line.file, ":", line.line, " in ", line.function);
  return sites.phases().NameOf(sites.At(site).phase);
}

void AppendFindings(const GpuEpochs& gpu, const SiteTable& sites, std::vector<LineFinding>& findings) {
  // Memory of a line's backward pass is apart: it is kept for other reasons.
  std::map<std::pair<std::string, bool>, LineHistory> by_name;
  for (const SiteHistory& history : gpu.epochs.sites) {
    by_name[{NameOf(history.site, sites), !sites.At(history.site).node.empty()}].Add(history);
  }
  std::vector<LineHistory> lines;
  for (auto& [name, history] : by_name) lines.push_back(std::move(history));
  const std::vector<LineJudgement> judgements = JudgeLines(lines);
  size_t number = 0;
  for (const auto& [name, unused] : by_name) {
    const LineJudgement& judgement = judgements[number++];
    if (judgement.leak.verdict == LeakVerdict::kNone) continue;
    if (sites.phases().IsExpectedToGrow(sites.At(judgement.site).phase)) continue;
    findings.push_back({.gpu = gpu.gpu,
                        .site = judgement.site,
                        .name = name.first,
                        .largest_block = judgement.largest_block,
                        .leak = judgement.leak,
                        .latest = judgement.latest});
  }
}

// Of one GPU's findings, the smallest first.
void MarkMaterial(const std::optional<Bytes> room, std::vector<LineFinding*> findings) {
  if (!room.has_value()) return;
  std::sort(findings.begin(), findings.end(), [](const LineFinding* a, const LineFinding* b) {
    return a->leak.bytes_per_epoch < b->leak.bytes_per_epoch;
  });
  double together = 0;
  for (LineFinding* finding : findings) {
    together += finding->leak.bytes_per_epoch;
    finding->material = together * kMostMaterialEpochs >= static_cast<double>(room->count());
  }
}

int Severity(LeakVerdict verdict) {
  constexpr LeakVerdict kWorstLast[] = {LeakVerdict::kNone, LeakVerdict::kSuspect, LeakVerdict::kGrowing,
                                        LeakVerdict::kLeak};
  return static_cast<int>(std::find(std::begin(kWorstLast), std::end(kWorstLast), verdict) - std::begin(kWorstLast));
}

std::string HeadLine(const LeakReport& report) {
  const std::string after = absl::StrCat(" after ", Counted(report.epochs, "epoch"));
  if (report.epochs == 0) return "frugal_alloc: nothing is known about leaks: no epoch has ended (call epoch_end())\n";
  if (report.findings.empty()) {
    const bool sure = report.epochs >= kFirstLeakEpoch;
    return absl::StrCat("frugal_alloc: no leak", after,
                        sure ? "" : absl::StrCat("; one can be told after ", kFirstLeakEpoch), "\n");
  }
  if (!report.findings.front().material) return absl::StrCat("frugal_alloc: no large leak", after, "\n");
  const LeakVerdict verdict = report.findings.front().leak.verdict;
  double rate = 0;
  for (const LineFinding& finding : report.findings) {
    if (finding.material && finding.leak.verdict == verdict) rate += finding.leak.bytes_per_epoch;
  }
  const char* const what = verdict == LeakVerdict::kLeak      ? "leak"
                           : verdict == LeakVerdict::kGrowing ? "growth"
                                                              : "perhaps a leak";
  return absl::StrCat("frugal_alloc: ", what, " of ", FormatBytes(rate), " per epoch,", after, "\n");
}

std::string Line(const LineFinding& finding) {
  const std::string name = finding.name.empty() ? "no named phase" : finding.name;
  const std::string head = absl::StrFormat("  %-7s %s: %s per epoch; ", NameOf(finding.leak.verdict), name,
                                           FormatBytes(finding.leak.bytes_per_epoch));
  if (finding.leak.verdict == LeakVerdict::kGrowing) {
    return absl::StrCat(head, FormatBytes(finding.latest.live), " in ", Counted(finding.latest.blocks, "block"), "\n");
  }
  return absl::StrCat(head, FormatBytes(finding.latest.survivors), " kept in ",
                      Counted(finding.latest.surviving_blocks, "block"), " of up to ",
                      FormatBytes(finding.largest_block), ", from ",
                      Counted(finding.latest.surviving_epochs(), "epoch"), "\n");
}

// At most kMostLines of them, and how many more there are.
std::string Lines(absl::Span<const LineFinding* const> findings) {
  std::string text;
  for (const LineFinding* finding : findings.first(std::min(findings.size(), kMostLines))) text += Line(*finding);
  if (findings.size() > kMostLines) absl::StrAppend(&text, "  and ", findings.size() - kMostLines, " more\n");
  return text;
}

std::string TextOf(const LeakReport& report, absl::Span<const GpuEpochs> gpus) {
  std::string text = HeadLine(report);
  std::vector<const LineFinding*> small;
  for (const GpuEpochs& gpu : gpus) {
    absl::StrAppend(&text, "GPU ", gpu.gpu, ": ", FormatBytes(gpu.epochs.live), " allocated\n");
    std::vector<const LineFinding*> large;
    for (const LineFinding& finding : report.findings) {
      if (finding.gpu == gpu.gpu) (finding.material ? large : small).push_back(&finding);
    }
    text += Lines(large);
  }
  if (!report.findings.empty() && report.findings.front().material) text += kAdvice;
  if (!small.empty()) {
    absl::StrAppend(&text, Counted(static_cast<int64_t>(small.size()), "small one"),
                    ": at this rate memory would last for more than 10,000 epochs\n", Lines(small));
  }
  return text;
}

}  // namespace

const char* NameOf(LeakVerdict verdict) {
  return verdict == LeakVerdict::kLeak ? "leak" : verdict == LeakVerdict::kGrowing ? "growing" : "suspect";
}

LeakReport MakeLeakReport(absl::Span<const GpuEpochs> gpus, const SiteTable& sites) {
  LeakReport report;
  for (const GpuEpochs& gpu : gpus) {
    report.epochs = std::max(report.epochs, gpu.epochs.epochs_ended);
    const size_t before = report.findings.size();
    AppendFindings(gpu, sites, report.findings);
    std::vector<LineFinding*> added;
    for (size_t i = before; i < report.findings.size(); ++i) added.push_back(&report.findings[i]);
    MarkMaterial(gpu.room, std::move(added));
  }
  std::stable_sort(report.findings.begin(), report.findings.end(), [](const LineFinding& a, const LineFinding& b) {
    return std::tuple(a.material, Severity(a.leak.verdict), a.leak.bytes_per_epoch) >
           std::tuple(b.material, Severity(b.leak.verdict), b.leak.bytes_per_epoch);
  });
  report.text = TextOf(report, gpus);
  return report;
}

}  // namespace frugal
