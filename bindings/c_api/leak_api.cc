// The functions of c_api.h about sites and leaks.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bindings/adapter/module_calls.h"
#include "bindings/adapter/site_sampler.h"
#include "bindings/adapter/torch_allocator.h"
#include "bindings/c_api/c_api.h"
#include "bindings/c_api/c_api_errors.h"
#include "bindings/tracking/leak_report.h"
#include "bindings/tracking/python_stack.h"
#include "bindings/tracking/site_table.h"

struct frugal_report {
  frugal::LeakReport report;
};

struct frugal_snapshot {
  std::vector<frugal_segment> segments;
  std::vector<frugal_block> blocks;
};

namespace frugal {
namespace {

constexpr char kNoSuchPhase[] = "there is no such phase of the program: frugal_phase() gives the numbers";
constexpr double kMostConfidence = 0.99;
constexpr char kNoSuchSite[] = "there is no such site";

// null: not opened, or we were never enabled.
GpuMemory* FindGpu(int number) {
  TorchAllocator* const allocator = TorchAllocator::Instance();
  const auto ordinal = static_cast<c10::DeviceIndex>(number);
  return allocator == nullptr || ordinal != number ? nullptr : allocator->gpus().Find(ordinal);
}

// 0, after f(DeviceAllocator&) for each GPU; -1.
template <typename F>
int ForEachGpu(F&& f) {
  TorchAllocator* const allocator = TorchAllocator::Instance();
  if (allocator == nullptr) return Failed(kNotEnabled);
  allocator->gpus().ForEach([&](GpuMemory& gpu) { f(gpu.allocator()); });
  return 0;
}

frugal_finding ToC(const LineFinding& finding) {
  const bool grows = finding.leak.verdict == LeakVerdict::kGrowing;
  return {.verdict = static_cast<int>(finding.leak.verdict),
          .gpu = finding.gpu,
          .site = static_cast<int>(finding.site),
          .name = finding.name.c_str(),
          .largest_block = finding.largest_block.count(),
          .bytes = (grows ? finding.latest.live : finding.latest.survivors).count(),
          .blocks = grows ? finding.latest.blocks : finding.latest.surviving_blocks,
          .epochs = finding.latest.surviving_epochs(),
          .bytes_per_epoch = finding.leak.bytes_per_epoch,
          // Nothing is certain.
          .confidence = std::min(finding.leak.confidence, kMostConfidence),
          .material = static_cast<int>(finding.material)};
}

void Append(const SegmentView& segment, frugal_snapshot& snapshot) {
  snapshot.segments.push_back({.address = segment.address.value(),
                               .bytes = segment.size.count(),
                               .stream = segment.stream.id,
                               .blocks = static_cast<int64_t>(segment.blocks.size()),
                               .unusable = segment.unusable.count(),
                               .mapped = segment.mapped});
  for (const BlockView& block : segment.blocks) {
    snapshot.blocks.push_back({.address = block.address.value(),
                               .bytes = block.size.count(),
                               .epoch = block.epoch,
                               .site = block.site == kUnsampled ? -1 : static_cast<int>(block.site),
                               .state = static_cast<int>(block.state)});
  }
}

// Ends an epoch of every GPU; how many have ended.
int64_t EndEpoch() {
  SiteSampler::RecordInDetail();
  int64_t ended = 0;
  ForEachGpu([&ended](DeviceAllocator& allocator) {
    allocator.births().EndEpoch();
    ended = std::max(ended, allocator.births().Report().epochs_ended);
  });
  return ended;
}

void HalveEpochs() {
  ForEachGpu([](DeviceAllocator& allocator) { allocator.births().HalveEpochs(); });
}

constexpr ModuleCalls::Epochs kEpochs = {EndEpoch, HalveEpochs};

bool HasSite(int site) { return site >= 0 && static_cast<size_t>(site) < SiteTable::Instance().size(); }

}  // namespace
}  // namespace frugal

int frugal_read_python(const char* file, const char* function, int line) {
  absl::Status status = frugal::FindPython();
  if (status.ok()) status = frugal::CheckPython({file, function, line});
  return status.ok() ? 0 : frugal::Failed(status.message());
}

void frugal_forget_python(void) { frugal::ForgetPython(); }

void frugal_set_code_owners(const char* beginnings) {
  frugal::SiteTable::Instance().SetOwners(frugal::CodeOwners(beginnings));
}

int frugal_phase(const char* name) { return static_cast<int>(frugal::SiteTable::Instance().phases().Find(name)); }

int frugal_set_phase(int phase) {
  const auto id = static_cast<frugal::PhaseId>(phase);
  if (!frugal::SiteTable::Instance().phases().Has(id)) return frugal::Failed(frugal::kNoSuchPhase);
  return static_cast<int>(frugal::SiteSampler::SetPhase(id));
}

const char* frugal_phase_name(int phase) {
  const auto id = static_cast<frugal::PhaseId>(phase);
  const frugal::PhaseTable& phases = frugal::SiteTable::Instance().phases();
  return phases.Has(id) ? phases.NameOf(id).c_str() : "";
}

int frugal_expect_growth(int phase) {
  const auto id = static_cast<frugal::PhaseId>(phase);
  if (!frugal::SiteTable::Instance().phases().Has(id)) return frugal::Failed(frugal::kNoSuchPhase);
  frugal::SiteTable::Instance().phases().ExpectGrowth(id);
  return 0;
}

int frugal_describe_site(int number, struct frugal_site* description) {
  if (!frugal::HasSite(number)) return frugal::Failed(frugal::kNoSuchSite);
  const frugal::Site& site = frugal::SiteTable::Instance().At(static_cast<frugal::SiteId>(number));
  *description = {.phase = frugal::SiteTable::Instance().phases().NameOf(site.phase).c_str(),
                  .node = site.node.c_str(),
                  .forward = static_cast<int>(site.forward),
                  .user = site.user,
                  .lines = static_cast<int>(site.lines.size())};
  return 0;
}

int64_t frugal_sites_left_out(void) { return frugal::SiteTable::Instance().left_out(); }

int frugal_site_lines(int number, struct frugal_line* lines, int capacity) {
  if (!frugal::HasSite(number)) return frugal::Failed(frugal::kNoSuchSite);
  const frugal::Site& site = frugal::SiteTable::Instance().At(static_cast<frugal::SiteId>(number));
  const int count = static_cast<int>(site.lines.size());
  for (int i = 0; i < std::min(count, capacity); ++i) {
    const frugal::CodeLine& line = frugal::SiteTable::Instance().LineAt(site.lines[static_cast<size_t>(i)]);
    lines[i] = {line.file.c_str(), line.function.c_str(), line.line};
  }
  return count;
}

int frugal_site_usages(int gpu_number, struct frugal_usage* usages, int capacity) {
  frugal::GpuMemory* const gpu = frugal::FindGpu(gpu_number);
  if (gpu == nullptr) return 0;
  const std::vector<frugal::SiteUsage> all = gpu->allocator().births().Usages();
  const int count = static_cast<int>(all.size());
  for (int i = 0; i < std::min(count, capacity); ++i) {
    const frugal::SiteUsage& usage = all[static_cast<size_t>(i)];
    usages[i] = {static_cast<int>(usage.site), usage.live.count(), usage.blocks, usage.at_peak.count()};
  }
  return count;
}

void frugal_restart_site_peaks(int gpu_number) {
  if (frugal::GpuMemory* gpu = frugal::FindGpu(gpu_number); gpu != nullptr) gpu->allocator().births().RestartPeak();
}

int64_t frugal_take_peak(int gpu_number, int64_t* in_use, int64_t* held) {
  *in_use = *held = 0;
  frugal::GpuMemory* const gpu = frugal::FindGpu(gpu_number);
  if (gpu == nullptr) return 0;
  const frugal::DeviceStats now = gpu->statistics().Ours();
  *in_use = now.allocated_bytes[0].current;
  *held = now.reserved_bytes[0].current;
  return gpu->allocator().births().TakeHighest().count();
}

int frugal_gpus(int* gpus, int capacity) {
  frugal::TorchAllocator* const allocator = frugal::TorchAllocator::Instance();
  if (allocator == nullptr) return 0;
  int count = 0;
  allocator->gpus().ForEach([&](frugal::GpuMemory& gpu) {
    if (count < capacity) gpus[count] = gpu.ordinal();
    ++count;
  });
  return count;
}

frugal_snapshot* frugal_take_snapshot(int gpu_number) {
  auto* const snapshot = new frugal_snapshot();
  frugal::GpuMemory* const gpu = frugal::FindGpu(gpu_number);
  if (gpu == nullptr) return snapshot;
  for (const frugal::SegmentView& segment : gpu->allocator().inspect().Snapshot()) frugal::Append(segment, *snapshot);
  return snapshot;
}

void frugal_free_snapshot(frugal_snapshot* snapshot) { delete snapshot; }

int64_t frugal_snapshot_segments(const frugal_snapshot* snapshot, const frugal_segment** segments) {
  *segments = snapshot->segments.data();
  return static_cast<int64_t>(snapshot->segments.size());
}

int64_t frugal_snapshot_blocks(const frugal_snapshot* snapshot, const frugal_block** blocks) {
  *blocks = snapshot->blocks.data();
  return static_cast<int64_t>(snapshot->blocks.size());
}

void frugal_record_in_detail(void) { frugal::SiteSampler::RecordInDetail(); }

int frugal_epoch_end(void) {
  frugal::SiteSampler::RecordInDetail();
  return frugal::ForEachGpu([](frugal::DeviceAllocator& allocator) { allocator.births().EndEpoch(); });
}

int frugal_collapse_epochs(void) {
  return frugal::ForEachGpu([](frugal::DeviceAllocator& allocator) { allocator.births().CollapseEpochs(); });
}

int frugal_halve_epochs(void) {
  return frugal::ForEachGpu([](frugal::DeviceAllocator& allocator) { allocator.births().HalveEpochs(); });
}

void frugal_count_module_calls(int on) { frugal::ModuleCalls::SetOn(on != 0 ? &frugal::kEpochs : nullptr); }

int64_t frugal_module_calls_to_epoch(void) { return frugal::ModuleCalls::window(); }

void frugal_set_epoch_listener(int (*schedule)(int (*call)(void*), void*), int (*call)(void*)) {
  frugal::ModuleCalls::SetListener(schedule, call);
}

int64_t frugal_epochs_ended(void) {
  int64_t ended = 0;
  const int failed = frugal::ForEachGpu([&ended](frugal::DeviceAllocator& allocator) {
    ended = std::max(ended, allocator.births().Report().epochs_ended);
  });
  return failed == 0 ? ended : -1;
}

frugal_report* frugal_make_report(void) {
  frugal::TorchAllocator* const allocator = frugal::TorchAllocator::Instance();
  if (allocator == nullptr) {
    frugal::Failed(frugal::kNotEnabled);
    return nullptr;
  }
  return new frugal_report{allocator->gpus().MakeLeakReport()};
}

void frugal_free_report(frugal_report* report) { delete report; }

const char* frugal_report_text(const frugal_report* report) { return report->report.text.c_str(); }

int64_t frugal_report_epochs(const frugal_report* report) { return report->report.epochs; }

int frugal_report_findings(const frugal_report* report, frugal_finding* findings, int capacity) {
  const std::vector<frugal::LineFinding>& all = report->report.findings;
  const int count = static_cast<int>(all.size());
  for (int i = 0; i < std::min(count, capacity); ++i) findings[i] = frugal::ToC(all[static_cast<size_t>(i)]);
  return count;
}
