#include "bindings/adapter/out_of_memory.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "allocator/port/format_bytes.h"
#include "bindings/adapter/host_memory_text.h"
#include "bindings/adapter/site_sampler.h"
#include "bindings/tracking/leak_report.h"
#include "bindings/tracking/out_of_memory_verdict.h"
#include "bindings/tracking/site_table.h"

namespace frugal {
namespace {

thread_local int silences = 0;

std::string HeldByUs(Bytes reserved, Bytes allocated, Bytes awaiting) {
  return absl::StrCat("frugal_alloc has reserved ", FormatBytes(reserved), ": ", FormatBytes(allocated), " allocated, ",
                      FormatBytes(awaiting), " freed but still in use by a stream, ",
                      FormatBytes(std::max(reserved - allocated - awaiting, Bytes(0))), " free.");
}

std::atomic<OutOfMemoryExplainer> the_explainer{nullptr};

// What the explainer says; null: there is none, or it has nothing to say, or it ran out of memory itself.
const char* Explain(const OutOfMemoryFacts& facts) {
  thread_local bool is_explaining = false;
  const OutOfMemoryExplainer explainer = the_explainer.load();
  if (explainer == nullptr || is_explaining) return nullptr;
  is_explaining = true;
  const absl::Cleanup done = [] { is_explaining = false; };
  return explainer(facts);
}

// What leaks keep, suspected ones included.
Bytes LeakedBytes(GpuMemory& gpu) {
  const LeakReport report = MakeLeakReport({{gpu.ordinal(), gpu.allocator().births().Report()}}, SiteTable::Instance());
  Bytes leaked;
  for (const LineFinding& finding : report.findings) {
    leaked += finding.leak.verdict == LeakVerdict::kGrowing ? finding.latest.live : finding.latest.survivors;
  }
  return leaked;
}

// Where the GPU's memory is the host's, what is kept for that is not in use by anybody.
void TellOfHost(GpuMemory& gpu, OutOfMemoryFacts& facts) {
  const UnifiedMemory* const unified = gpu.device().unified();
  if (unified == nullptr) return;
  facts.host = DescribeHostMemory(gpu);
  const absl::StatusOr<UnifiedMemory::State> host = unified->Look();
  if (!host.ok()) return;
  facts.host_own = host->own;
  facts.outside = std::max(host->total - host->available - facts.reserved - facts.native_reserved, Bytes(0));
}

OutOfMemoryFacts FactsOf(GpuMemory& gpu, const OutOfMemoryReport& report, Bytes native_reserved) {
  OutOfMemoryFacts facts;
  facts.gpu = gpu.ordinal();
  facts.site = static_cast<int>(SiteSampler::CurrentSite());
  facts.requested = report.requested;
  facts.asleep = gpu.Asleep();
  facts.allocated = report.allocated - facts.asleep;
  facts.awaiting = report.awaiting;
  facts.reserved = report.reserved;
  facts.native_reserved = native_reserved;
  facts.limit = std::min(report.limit, report.device_total);
  facts.device_free = report.device_free;
  facts.device_total = report.device_total;
  facts.outside = std::max(facts.device_total - facts.device_free - facts.reserved - facts.native_reserved, Bytes(0));
  facts.largest_free = report.largest_free;
  facts.unusable = report.unusable;
  facts.kept = report.kept;
  facts.gained = report.remedies;
  facts.limit_name = gpu.limit().Name();
  TellOfHost(gpu, facts);
  facts.missing = MissingBytes(facts);
  facts.verdict = JudgeOutOfMemory(facts, LeakedBytes(gpu));
  return facts;
}

std::string VerdictText(const OutOfMemoryFacts& facts) {
  switch (facts.verdict) {
    case OutOfMemoryVerdict::kTooBig:
      return absl::StrCat("It is too big by ", FormatBytes(facts.missing), ".");
    case OutOfMemoryVerdict::kLeak:
      return "It would fit but for memory that every epoch leaves behind: see the leak report.";
    case OutOfMemoryVerdict::kFragmentation:
      return absl::StrCat(FormatBytes(facts.unusable), " are free, but in pieces of memory that tensors in use share.");
    case OutOfMemoryVerdict::kOutside:
      return absl::StrCat("It would fit but for ", FormatBytes(facts.outside), " outside of PyTorch.");
  }
  return "";
}

}  // namespace

OutOfMemoryObservers::Silence::Silence() { ++silences; }
OutOfMemoryObservers::Silence::~Silence() { --silences; }

void OutOfMemoryObservers::Attach(caching::CUDAAllocator& native, caching::OutOfMemoryObserver observer) {
  native.attachOutOfMemoryObserver([observer](int64_t device, size_t requested, size_t total, size_t free) {
    if (silences == 0) observer(device, requested, total, free);
  });
  absl::MutexLock lock(&mutex_);
  observers_.push_back(std::move(observer));
}

void OutOfMemoryObservers::Notify(int64_t device, size_t requested, size_t total, size_t free) {
  std::vector<caching::OutOfMemoryObserver> observers;
  {
    absl::MutexLock lock(&mutex_);
    observers = observers_;
  }
  for (const caching::OutOfMemoryObserver& observer : observers) observer(device, requested, total, free);
}

std::string HeldByUs(const Statistics& statistics) {
  const Bytes allocated(statistics.allocated_bytes[SizeGroup::kAll].current);
  const Bytes active(statistics.active_bytes()[SizeGroup::kAll].current);
  return HeldByUs(Bytes(statistics.reserved_bytes[SizeGroup::kAll].current), allocated, active - allocated);
}

void SetOutOfMemoryExplainer(OutOfMemoryExplainer explainer) { the_explainer.store(explainer); }

std::string OutOfMemoryMessage(const OutOfMemoryFacts& facts) {
  std::string message = absl::StrCat("CUDA out of memory. Tried to allocate ", FormatBytes(facts.requested), ". GPU ",
                                     facts.gpu, " has a total capacity of ", FormatBytes(facts.device_total),
                                     " of which ", FormatBytes(facts.device_free), " is free. ");
  if (facts.limit < facts.device_total) {
    absl::StrAppend(&message, "This process may hold ", FormatBytes(facts.limit), " of it (", facts.limit_name, "). ");
  }
  if (const char* explanation = Explain(facts); explanation != nullptr) {
    return absl::StrCat(message, "\n", explanation);
  }
  absl::StrAppend(&message, VerdictText(facts), " ", HeldByUs(facts.reserved, facts.allocated, facts.awaiting));
  if (facts.native_reserved > Bytes(0)) {
    absl::StrAppend(&message, " PyTorch's native allocator has reserved ", FormatBytes(facts.native_reserved),
                    " (before frugal_alloc.enable(), or while it was disabled).");
  }
  if (!facts.host.empty()) {
    absl::StrAppend(&message, " ", facts.host);
  } else if (facts.outside > Bytes(0)) {
    absl::StrAppend(&message, " The other ", FormatBytes(facts.outside),
                    " in use belong to the CUDA context, to other libraries or to other processes.");
  }
  return message;
}

void ThrowOutOfMemory(GpuMemory& gpu, size_t requested, cudaStream_t stream, History& history,
                      OutOfMemoryObservers& observers) {
  const OutOfMemoryReport report = LastOutOfMemory();
  const DeviceStats both = gpu.statistics().Together();
  const auto free = static_cast<size_t>(report.device_free.count());
  const auto total = static_cast<size_t>(std::min(report.limit, report.device_total).count());
  if (history.listening()) history.Record(TraceEntry::OOM, gpu.ordinal(), free, requested, stream, nullptr);
  c10::reportOutOfMemoryToProfiler(
      static_cast<int64_t>(requested), static_cast<size_t>(both.allocated_bytes[0].current),
      static_cast<size_t>(both.reserved_bytes[0].current), c10::Device(c10::DeviceType::CUDA, gpu.ordinal()));
  observers.Notify(gpu.ordinal(), requested, total, free);
  const Bytes native_reserved = std::max(Bytes(both.reserved_bytes[0].current) - report.reserved, Bytes(0));
  const OutOfMemoryFacts facts = FactsOf(gpu, report, native_reserved);
  // Before it is explained, which may change the verdict.
  gpu.SetLastOutOfMemory(facts.verdict);
  std::string message = OutOfMemoryMessage(facts);
  if (!report.driver_failure.ok()) {
    absl::StrAppend(&message,
                    "\nThe CUDA driver failed on the way, which may be why: ", report.driver_failure.message(), ".");
  }
  C10_THROW_ERROR(OutOfMemoryError, message);
}

}  // namespace frugal
