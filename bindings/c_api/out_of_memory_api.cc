// The functions of c_api.h about running out of memory.

#include <atomic>
#include <string>

#include "absl/strings/str_cat.h"
#include "bindings/adapter/out_of_memory.h"
#include "bindings/c_api/c_api.h"
#include "bindings/publishing/json_text.h"
#include "bindings/tracking/out_of_memory_verdict.h"

namespace frugal {
namespace {

using Explainer = const char* (*)(const char* facts);

std::atomic<Explainer> the_explainer{nullptr};

// The keys are those of a report's "oom" (docs/reports.md).
std::string ToJson(const OutOfMemoryFacts& facts) {
  const auto tried = [](const char* what, Bytes gained) {
    return JsonObject().Text("what", what).Integer("gained_bytes", gained.count()).Done();
  };
  return JsonObject()
      .Integer("gpu", facts.gpu)
      .Integer("requested_bytes", facts.requested.count())
      .Integer("site", facts.site)
      .Text("verdict", NameOf(facts.verdict))
      .Integer("allocated_bytes", facts.allocated.count())
      .Integer("awaiting_bytes", facts.awaiting.count())
      .Integer("reserved_bytes", facts.reserved.count())
      .Integer("native_reserved_bytes", facts.native_reserved.count())
      .Integer("limit_bytes", facts.limit.count())
      .Integer("device_free_bytes", facts.device_free.count())
      .Integer("device_total_bytes", facts.device_total.count())
      .Integer("outside_bytes", facts.outside.count())
      .Integer("largest_free_bytes", facts.largest_free.count())
      .Integer("unusable_bytes", facts.unusable.count())
      .Integer("missing_bytes", facts.missing.count())
      .Text("limit_name", facts.limit_name)
      .Value("tried",
             absl::StrCat("[", tried("waiting for other streams", facts.gained.stream_waits + facts.gained.host_waits),
                          ",", tried("memory that PyTorch caches", facts.gained.caches), ",",
                          tried("Python's garbage", facts.gained.garbage), "]"))
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
