// The functions of c_api.h about what the process publishes while it runs.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/c_api/c_api.h"
#include "bindings/c_api/c_api_results.h"
#include "bindings/publishing/live_figures.h"
#include "bindings/publishing/published_verdicts.h"
#include "bindings/tracking/out_of_memory_verdict.h"

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
