// The functions of c_api.h about sites and leaks.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bindings/adapter/module_calls.h"
#include "bindings/adapter/site_sampler.h"
#include "bindings/adapter/torch_allocator.h"
#include "bindings/c_api/c_api.h"
#include "bindings/c_api/c_api_results.h"
#include "bindings/publishing/json_text.h"
#include "bindings/tracking/leak_report.h"
#include "bindings/tracking/python_context.h"
#include "bindings/tracking/python_stack.h"
#include "bindings/tracking/site_table.h"

struct frugal_report {
  frugal::LeakReport report;
};

namespace frugal {
namespace {

constexpr char kNoSuchPhase[] = "there is no such phase of the program: frugal_phase() gives the numbers";
constexpr double kMostConfidence = 0.99;
constexpr char kNoSuchSite[] = "there is no such site";

// 0, after f(DeviceAllocator&) for each GPU; -1.
template <typename F>
int ForEachGpu(F&& f) {
  TorchAllocator* const allocator = TorchAllocator::Instance();
  if (allocator == nullptr) return Failed(kNotEnabled);
  allocator->gpus().ForEach([&](GpuMemory& gpu) { f(gpu.allocator()); });
  return 0;
}

const char* NameOf(BlockView::State state) {
  if (state == BlockView::State::kAllocated) return "allocated";
  return state == BlockView::State::kAwaitingStreams ? "awaiting" : "free";
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

std::string ToJson(const PoolFigures& pool) {
  return JsonObject()
      .Integer("gpu", pool.gpu)
      .Value("id", absl::StrCat("[", pool.pool.first, ",", pool.pool.second, "]"))
      .Integer("site", static_cast<int>(pool.site))
      .Truth("captured", pool.captured)
      .Integer("holders", pool.holders)
      .Integer("reserved_bytes", pool.reserved.count())
      .Integer("allocated_bytes", pool.allocated.count())
      .Integer("kept_bytes", pool.kept.count())
      .Integer("idle_bytes", pool.idle.count())
      .Done();
}

std::string ToJson(const LineFinding& finding) {
  const frugal_finding in_c = ToC(finding);
  return JsonObject()
      .Text("kind", NameOf(finding.leak.verdict))
      .Integer("gpu", in_c.gpu)
      .Integer("site", in_c.site)
      .Integer("bytes", in_c.bytes)
      .Integer("blocks", in_c.blocks)
      .Integer("epochs", in_c.epochs)
      .Real("bytes_per_epoch", in_c.bytes_per_epoch)
      .Real("confidence", in_c.confidence)
      .Integer("largest_block", in_c.largest_block)
      .Done();
}

std::string ToJson(const CodeLine& line) {
  return JsonObject().Text("file", line.file).Integer("line", line.line).Text("function", line.function).Done();
}

std::string ToJson(int gpu, const SiteUsage& usage) {
  return JsonObject()
      .Integer("gpu", gpu)
      .Integer("site", static_cast<int64_t>(usage.site))
      .Integer("live_bytes", usage.live.count())
      .Integer("blocks", usage.blocks)
      .Integer("peak_bytes", usage.at_peak.count())
      .Done();
}

// There may be a million blocks: a list each, without names.
std::string ToJson(const BlockView& block) {
  return absl::StrCat("[", block.address.value(), ",", block.size.count(), ",\"", NameOf(block.state), "\",",
                      static_cast<int>(block.site == kUnsampled ? kNoSite : block.site), ",", block.epoch, "]");
}

std::string ToJson(int gpu, const SegmentView& segment) {
  return JsonObject()
      .Integer("gpu", gpu)
      .Integer("address", static_cast<int64_t>(segment.address.value()))
      .Integer("bytes", segment.size.count())
      .Integer("stream", static_cast<int64_t>(segment.stream.id))
      .Truth("mapped", segment.mapped)
      .Integer("unusable_bytes", segment.unusable.count())
      .Value("blocks", JsonList(segment.blocks, [](const BlockView& block) { return ToJson(block); }))
      .Done();
}

// What f(GpuMemory&) tells of each GPU: elements of a list, separated by commas.
template <typename F>
const char* ListOfGpus(F&& f) {
  std::string list;
  if (TorchAllocator* const allocator = TorchAllocator::Instance(); allocator != nullptr) {
    allocator->gpus().ForEach([&](GpuMemory& gpu) {
      const std::string elements = f(gpu);
      absl::StrAppend(&list, list.empty() || elements.empty() ? "" : ",", elements);
    });
  }
  return LendJson(absl::StrCat("[", list, "]"));
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
  return frugal::ToResult(status);
}

void frugal_forget_python(void) {
  frugal::ForgetPython();
  frugal::ForgetPythonContext();
}

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

const char* frugal_site(int number) {
  if (!frugal::HasSite(number)) {
    frugal::Failed(frugal::kNoSuchSite);
    return nullptr;
  }
  const frugal::SiteTable& sites = frugal::SiteTable::Instance();
  const frugal::Site& site = sites.At(static_cast<frugal::SiteId>(number));
  const auto line_at = [&sites](uint32_t line) { return frugal::ToJson(sites.LineAt(line)); };
  return frugal::LendJson(frugal::JsonObject()
                              .Integer("number", number)
                              .Text("phase", sites.phases().NameOf(site.phase))
                              .Value("frames", frugal::JsonList(site.lines, line_at))
                              .Text("node", site.node)
                              .Integer("forward", static_cast<int64_t>(site.forward))
                              .Done());
}

int64_t frugal_sites_left_out(void) { return frugal::SiteTable::Instance().left_out(); }

const char* frugal_site_usages(void) {
  return frugal::ListOfGpus([](frugal::GpuMemory& gpu) {
    const auto usage_of = [&gpu](const frugal::SiteUsage& usage) { return frugal::ToJson(gpu.ordinal(), usage); };
    return frugal::JsonElements(gpu.allocator().births().Usages(), usage_of);
  });
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

const char* frugal_gpus(void) {
  return frugal::ListOfGpus([](const frugal::GpuMemory& gpu) { return absl::StrCat(gpu.ordinal()); });
}

const char* frugal_segments(void) {
  return frugal::ListOfGpus([](frugal::GpuMemory& gpu) {
    const auto segment_of = [&gpu](const frugal::SegmentView& segment) {
      return frugal::ToJson(gpu.ordinal(), segment);
    };
    gpu.allocator().sleep().EnterGivenBack();
    return frugal::JsonElements(gpu.allocator().inspect().Snapshot(), segment_of);
  });
}

const char* frugal_private_pools(void) {
  frugal::TorchAllocator* const allocator = frugal::TorchAllocator::Instance();
  const auto pool_of = [](const frugal::PoolFigures& pool) { return frugal::ToJson(pool); };
  return frugal::LendJson(allocator == nullptr ? "[]" : frugal::JsonList(allocator->DescribePools(), pool_of));
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

const char* frugal_findings(void) {
  frugal::TorchAllocator* const allocator = frugal::TorchAllocator::Instance();
  if (allocator == nullptr) return "[]";
  const frugal::LeakReport report = allocator->gpus().MakeLeakReport();
  return frugal::LendJson(
      frugal::JsonList(report.findings, [](const frugal::LineFinding& finding) { return frugal::ToJson(finding); }));
}
