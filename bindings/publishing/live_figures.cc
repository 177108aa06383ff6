#include "bindings/publishing/live_figures.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "allocator/port/format_bytes.h"
#include "bindings/adapter/site_sampler.h"
#include "bindings/adapter/torch_allocator.h"
#include "bindings/publishing/live_document.h"
#include "bindings/publishing/live_neighbours.h"
#include "bindings/publishing/published_verdicts.h"
#include "bindings/tracking/out_of_memory_verdict.h"
#include "bindings/tracking/site_table.h"

namespace frugal {
namespace {

LiveGpu FiguresOf(GpuMemory& gpu) {
  // As torch.cuda.memory_allocated() and its like have them.
  const DeviceStats stats = gpu.statistics().Together();
  const absl::StatusOr<MemoryInfo> memory = gpu.device().GetMemoryInfo();
  const Bytes limit = gpu.allocator().settings().limit().most();
  const std::optional<OutOfMemoryVerdict> verdict = gpu.last_out_of_memory();
  return {.gpu = gpu.ordinal(),
          .name = gpu.device().Name(),
          .uuid = gpu.device().Uuid(),
          .total = memory.ok() ? memory->total.count() : 0,
          .free = memory.ok() ? memory->free.count() : 0,
          .is_size_known = memory.ok(),
          .limit = limit < kUnlimited ? limit.count() : 0,
          .in_use = stats.allocated_bytes[0].current,
          .asleep = TorchAllocator::Instance()->sleeper().AsleepBytes(gpu).count(),
          .held = stats.reserved_bytes[0].current,
          .peak = stats.allocated_bytes[0].peak,
          .stitches = gpu.allocator().GetStatistics().num_stitches,
          .out_of_memory_errors = stats.num_ooms,
          .last_out_of_memory = verdict.has_value() ? NameOf(*verdict) : ""};
}

// The last two parts of the path, and the line.
std::string PlaceOf(SiteId site) {
  const CodeLine code = SiteTable::Instance().UserLine(site);
  if (code.file.empty()) return "";
  size_t start = code.file.rfind('/');
  if (start != std::string::npos && start > 0) start = code.file.rfind('/', start - 1);
  return absl::StrCat(start == std::string::npos ? code.file : code.file.substr(start + 1), ":", code.line);
}

std::vector<LivePool> Pools() {
  TorchAllocator* const allocator = TorchAllocator::Instance();
  if (allocator == nullptr) return {};
  std::vector<LivePool> pools;
  for (const PoolFigures& pool : allocator->DescribePools()) {
    pools.push_back({.gpu = pool.gpu,
                     .line = PlaceOf(pool.site),
                     .captured = pool.captured,
                     .released = pool.holders == 0,
                     .reserved = pool.reserved.count(),
                     .allocated = pool.allocated.count(),
                     .idle = pool.idle.count()});
  }
  std::sort(pools.begin(), pools.end(), [](const auto& a, const auto& b) { return a.reserved > b.reserved; });
  return pools;
}

// In the words of a report of the Python package (_report/headline.py).
PublishedVerdict ToVerdict(const LineFinding& finding) {
  const std::string place = finding.name.empty() ? "Memory of no named phase" : finding.name;
  const LeakVerdict verdict = finding.leak.verdict;
  const char* const verb = verdict == LeakVerdict::kGrowing ? "makes a tensor that grows by"
                           : verdict == LeakVerdict::kLeak  ? "leaks"
                                                            : "may leak";
  return {.kind = NameOf(verdict),
          .gpu = finding.gpu,
          .text = absl::StrCat(place, " ", verb, " ", FormatBytes(finding.leak.bytes_per_epoch), " with each epoch"),
          .bytes_per_epoch = finding.leak.bytes_per_epoch};
}

std::vector<PublishedVerdict> Verdicts(const LeakReport& report) {
  if (auto published = PublishedVerdicts::Instance().Latest(); published.has_value()) return *std::move(published);
  std::vector<PublishedVerdict> verdicts;
  for (const LineFinding& finding : report.findings) {
    if (finding.material) verdicts.push_back(ToVerdict(finding));
  }
  return verdicts;
}

// Waits for locks of the allocators, and asks the driver how much memory is free. May throw what PyTorch's allocator
// throws.
std::string DescribeLive(const GpuSet& gpus, const std::string& node) {
  LiveFigures figures;
  figures.pid = getpid();
  figures.age_seconds = AgeSeconds();
  figures.command = CommandLine();
  figures.is_simulated = IsSimulated();
  figures.node = figures.is_simulated ? node : "";
  figures.is_tracking = SiteSampler::is_on();
  gpus.ForEach([&figures](GpuMemory& gpu) { figures.gpus.push_back(FiguresOf(gpu)); });
  figures.pools = Pools();
  const LeakReport report = gpus.MakeLeakReport();
  figures.epochs = report.epochs;
  figures.verdicts = Verdicts(report);
  return WriteLiveDocument(figures);
}

std::atomic<Publisher*> live_publisher{nullptr};

}  // namespace

void MakeLivePublisher(GpuSet& gpus) {
  auto* const publisher = new Publisher([&gpus, node = SimulatedNode()] { return DescribeLive(gpus, node); });
  publisher->GuardProcess();
  MakeLiveNeighbours(gpus);
  gpus.SetWhenOpened([publisher] {
    publisher->Begin();
    BeginLiveNeighbours();
  });
  live_publisher.store(publisher, std::memory_order_release);
}

void SetLivePublishing(bool is_wanted) {
  LivePublisher()->Set(is_wanted);
  SetLiveNeighbours(is_wanted);
}

Publisher* LivePublisher() { return live_publisher.load(std::memory_order_acquire); }

}  // namespace frugal
