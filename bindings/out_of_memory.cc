#include "bindings/out_of_memory.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "bindings/host_memory_text.h"
#include "bindings/leak_report.h"
#include "bindings/out_of_memory_verdict.h"
#include "bindings/site_sampler.h"
#include "bindings/site_table.h"

namespace frugal {
namespace {

thread_local int silences = 0;

std::string Size(Bytes size) {
  return c10::CachingAllocator::format_size(static_cast<uint64_t>(std::max<int64_t>(size.count(), 0)));
}

std::string HeldByUs(Bytes reserved, Bytes allocated, Bytes awaiting) {
  return absl::StrCat("frugal_alloc holds ", Size(reserved), ": ", Size(allocated), " in tensors, ", Size(awaiting),
                      " freed but still in use by a stream, ", Size(reserved - allocated - awaiting), " free.");
}

std::atomic<OutOfMemoryExplainer> the_explainer{nullptr};

// What the explainer says; null: there is none, or it has nothing to say, or it ran out of memory itself.
const char* Explain(const frugal_out_of_memory& facts) {
  thread_local bool is_explaining = false;
  const OutOfMemoryExplainer explainer = the_explainer.load();
  if (explainer == nullptr || is_explaining) return nullptr;
  is_explaining = true;
  const absl::Cleanup done = [] { is_explaining = false; };
  return explainer(&facts);
}

// What leaks keep, suspected ones included.
Bytes LeakedBytes(GpuMemory& gpu) {
  const LeakReport report = MakeLeakReport({{gpu.ordinal(), gpu.allocator().GetEpochReport()}}, SiteTable::Instance());
  Bytes leaked;
  for (const LineFinding& finding : report.findings) {
    leaked += finding.leak.verdict == LeakVerdict::kGrowing ? finding.latest.live : finding.latest.survivors;
  }
  return leaked;
}

// Where the GPU's memory is the host's, what is kept for that is not in use by anybody.
void TellOfHost(GpuMemory& gpu, frugal_out_of_memory& facts) {
  const UnifiedMemory* const unified = gpu.device().unified();
  if (unified == nullptr) return;
  // Read before this thread runs out of memory again.
  thread_local std::string text;
  text = DescribeHostMemory(gpu);
  facts.host = text.c_str();
  const absl::StatusOr<UnifiedMemory::State> host = unified->Look();
  if (!host.ok()) return;
  facts.host_own = host->own.count();
  facts.outside =
      std::max<int64_t>((host->total - host->available).count() - facts.reserved - facts.native_reserved, 0);
}

frugal_out_of_memory FactsOf(GpuMemory& gpu, const OutOfMemoryReport& report, int64_t native_reserved) {
  frugal_out_of_memory facts = {};
  facts.gpu = gpu.ordinal();
  facts.site = static_cast<int>(SiteSampler::CurrentSite());
  facts.requested = report.requested.count();
  facts.allocated = report.allocated.count();
  facts.awaiting = report.awaiting.count();
  facts.reserved = report.reserved.count();
  facts.native_reserved = native_reserved;
  facts.limit = std::min(report.limit, report.device_total).count();
  facts.device_free = report.device_free.count();
  facts.device_total = report.device_total.count();
  facts.outside = std::max<int64_t>(facts.device_total - facts.device_free - facts.reserved - facts.native_reserved, 0);
  facts.largest_free = report.largest_free.count();
  facts.unusable = report.unusable.count();
  facts.gained_by_stream_waits = report.remedies.stream_waits.count();
  facts.gained_by_caches = report.remedies.caches.count();
  facts.gained_by_garbage = report.remedies.garbage.count();
  facts.gained_by_host_waits = report.remedies.host_waits.count();
  facts.limit_name = gpu.LimitName();
  facts.host = "";
  TellOfHost(gpu, facts);
  facts.missing = MissingBytes(facts).count();
  facts.verdict = static_cast<int>(JudgeOutOfMemory(facts, LeakedBytes(gpu)));
  return facts;
}

std::string VerdictText(const frugal_out_of_memory& facts) {
  switch (static_cast<OutOfMemoryVerdict>(facts.verdict)) {
    case OutOfMemoryVerdict::kTooBig:
      return absl::StrCat("It is too big by ", Size(Bytes(facts.missing)), ".");
    case OutOfMemoryVerdict::kLeak:
      return "It would fit but for memory that every epoch leaves behind: see the leak report.";
    case OutOfMemoryVerdict::kFragmentation:
      return absl::StrCat(Size(Bytes(facts.unusable)), " are free, but in pieces of memory that tensors in use share.");
    case OutOfMemoryVerdict::kOutside:
      return absl::StrCat("It would fit but for ", Size(Bytes(facts.outside)), " outside of PyTorch.");
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

std::string OutOfMemoryMessage(const frugal_out_of_memory& facts) {
  std::string message = absl::StrCat("CUDA out of memory. Tried to allocate ", Size(Bytes(facts.requested)), ". GPU ",
                                     facts.gpu, " has a total capacity of ", Size(Bytes(facts.device_total)),
                                     " of which ", Size(Bytes(facts.device_free)), " is free. ");
  if (facts.limit < facts.device_total) {
    absl::StrAppend(&message, "This process may hold ", Size(Bytes(facts.limit)), " of it (", facts.limit_name, "). ");
  }
  if (const char* explanation = Explain(facts); explanation != nullptr) {
    return absl::StrCat(message, "\n", explanation);
  }
  absl::StrAppend(&message, VerdictText(facts), " ",
                  HeldByUs(Bytes(facts.reserved), Bytes(facts.allocated), Bytes(facts.awaiting)));
  if (facts.native_reserved > 0) {
    absl::StrAppend(&message, " PyTorch's native allocator holds ", Size(Bytes(facts.native_reserved)),
                    " (CUDA graphs, memory pools, tensors older than frugal_alloc.enable()).");
  }
  if (*facts.host != '\0') {
    absl::StrAppend(&message, " ", facts.host);
  } else if (facts.outside > 0) {
    absl::StrAppend(&message, " The other ", Size(Bytes(facts.outside)),
                    " in use belong to the CUDA context, to other libraries or to other processes.");
  }
  return message;
}

void ThrowOutOfMemory(GpuMemory& gpu, size_t requested, cudaStream_t stream, History& history,
                      OutOfMemoryObservers& observers) {
  const OutOfMemoryReport report = DeviceAllocator::LastOutOfMemory();
  const DeviceStats both = gpu.GetStats();
  const auto free = static_cast<size_t>(report.device_free.count());
  const auto total = static_cast<size_t>(std::min(report.limit, report.device_total).count());
  if (history.listening()) history.Record(TraceEntry::OOM, gpu.ordinal(), free, requested, stream, nullptr);
  c10::reportOutOfMemoryToProfiler(
      static_cast<int64_t>(requested), static_cast<size_t>(both.allocated_bytes[0].current),
      static_cast<size_t>(both.reserved_bytes[0].current), c10::Device(c10::DeviceType::CUDA, gpu.ordinal()));
  observers.Notify(gpu.ordinal(), requested, total, free);
  const int64_t native_reserved = std::max<int64_t>(both.reserved_bytes[0].current - report.reserved.count(), 0);
  std::string message = OutOfMemoryMessage(FactsOf(gpu, report, native_reserved));
  if (!report.driver_failure.ok()) {
    absl::StrAppend(&message,
                    "\nThe CUDA driver failed on the way, which may be why: ", report.driver_failure.message(), ".");
  }
  C10_THROW_ERROR(OutOfMemoryError, message);
}

}  // namespace frugal
