// The functions of c_api.h about running out of memory, and about what the process publishes while it runs.

#include <atomic>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bindings/adapter/out_of_memory.h"
#include "bindings/c_api/c_api.h"
#include "bindings/c_api/c_api_results.h"
#include "bindings/publishing/json_text.h"
#include "bindings/publishing/live_figures.h"
#include "bindings/publishing/published_verdicts.h"
#include "bindings/tracking/out_of_memory_verdict.h"

namespace frugal {
namespace {

using Explainer = const char* (*)(const char* facts);

std::atomic<Explainer> the_explainer{nullptr};

// The keys are those of a report's "oom" (docs/reference/report.md).
std::string ToJson(const OutOfMemoryFacts& facts) {
  const auto tried = [](const char* what, Bytes gained) {
    return JsonObject().Text("what", what).Integer("gained_bytes", gained.count()).Done();
  };
  const std::optional<Bytes> neighbours = facts.gained.neighbours;
  return JsonObject()
      .Integer("gpu", facts.gpu)
      .Integer("requested_bytes", facts.requested.count())
      .Integer("site", facts.site)
      .Text("verdict", NameOf(facts.verdict))
      .Integer("allocated_bytes", facts.allocated.count())
      .Integer("asleep_bytes", facts.asleep.count())
      .Integer("awaiting_bytes", facts.awaiting.count())
      .Integer("reserved_bytes", facts.reserved.count())
      .Integer("native_reserved_bytes", facts.native_reserved.count())
      .Integer("limit_bytes", facts.limit.count())
      .Integer("device_free_bytes", facts.device_free.count())
      .Integer("device_total_bytes", facts.device_total.count())
      .Integer("outside_bytes", facts.outside.count())
      .Integer("largest_free_bytes", facts.largest_free.count())
      .Integer("unusable_bytes", facts.unusable.count())
      .Integer("kept_bytes", facts.kept.count())
      .Integer("missing_bytes", facts.missing.count())
      .Text("limit_name", facts.limit_name)
      .Value("tried",
             absl::StrCat(
                 "[", tried("waiting for other streams", facts.gained.stream_waits + facts.gained.host_waits), ",",
                 tried("memory that PyTorch caches", facts.gained.caches), ",",
                 tried("Python's garbage", facts.gained.garbage),
                 neighbours.has_value() ? absl::StrCat(",", tried("other processes of yours", *neighbours)) : "", "]"))
      .Text("host", facts.host)
      .Integer("host_own_bytes", facts.host_own.count())
      .Done();
}

const char* Explain(const OutOfMemoryFacts& facts) {
  const Explainer explainer = the_explainer.load();
  return explainer == nullptr ? nullptr : explainer(ToJson(facts).c_str());
}

}  // namespace
}  // namespace frugal

void frugal_set_explainer(const char* (*explainer)(const char* facts)) {
  frugal::the_explainer.store(explainer);
  frugal::SetOutOfMemoryExplainer(explainer == nullptr ? nullptr : frugal::Explain);
}

void frugal_publish_verdicts(const struct frugal_published_verdict* verdicts, int count) {
  std::vector<frugal::PublishedVerdict> published;
  published.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    const frugal_published_verdict& verdict = verdicts[i];
    published.push_back({verdict.kind, verdict.gpu, verdict.text, verdict.bytes_per_epoch});
  }
  frugal::PublishedVerdicts::Instance().Publish(std::move(published));
}

int frugal_take_look(void) {
  frugal::Publisher* const publisher = frugal::LivePublisher();
  return publisher != nullptr && publisher->TakeLook() ? 1 : 0;
}

void frugal_correct_verdict(int gpu_number, const char* verdict) {
  const std::optional<frugal::OutOfMemoryVerdict> cause = frugal::VerdictNamed(verdict);
  frugal::GpuMemory* const gpu = frugal::FindGpu(gpu_number);
  if (cause.has_value() && gpu != nullptr) gpu->SetLastOutOfMemory(*cause);
}
