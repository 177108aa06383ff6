// The function of c_api.h about running out of memory.

#include <atomic>

#include "bindings/adapter/out_of_memory.h"
#include "bindings/c_api/c_api.h"

namespace frugal {
namespace {

using Explainer = const char* (*)(const frugal_out_of_memory*);

std::atomic<Explainer> the_explainer{nullptr};

frugal_out_of_memory ToC(const OutOfMemoryFacts& facts) {
  return {.gpu = facts.gpu,
          .verdict = static_cast<int>(facts.verdict),
          .site = facts.site,
          .requested = facts.requested.count(),
          .missing = facts.missing.count(),
          .allocated = facts.allocated.count(),
          .awaiting = facts.awaiting.count(),
          .reserved = facts.reserved.count(),
          .native_reserved = facts.native_reserved.count(),
          .limit = facts.limit.count(),
          .device_free = facts.device_free.count(),
          .device_total = facts.device_total.count(),
          .outside = facts.outside.count(),
          .largest_free = facts.largest_free.count(),
          .unusable = facts.unusable.count(),
          .gained_by_stream_waits = facts.gained.stream_waits.count(),
          .gained_by_caches = facts.gained.caches.count(),
          .gained_by_garbage = facts.gained.garbage.count(),
          .gained_by_host_waits = facts.gained.host_waits.count(),
          .limit_name = facts.limit_name,
          .host = facts.host.c_str(),
          .host_own = facts.host_own.count()};
}

const char* Explain(const OutOfMemoryFacts& facts) {
  const Explainer explainer = the_explainer.load();
  if (explainer == nullptr) return nullptr;
  const frugal_out_of_memory in_c = ToC(facts);
  return explainer(&in_c);
}

}  // namespace
}  // namespace frugal

void frugal_set_explainer(const char* (*explainer)(const struct frugal_out_of_memory* facts)) {
  frugal::the_explainer.store(explainer);
  frugal::SetOutOfMemoryExplainer(explainer == nullptr ? nullptr : frugal::Explain);
}
