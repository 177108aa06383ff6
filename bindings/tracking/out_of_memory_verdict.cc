#include "bindings/tracking/out_of_memory_verdict.h"

#include <algorithm>

namespace frugal {

Bytes MissingBytes(const OutOfMemoryFacts& facts) {
  const Bytes may_take = std::max(facts.limit - facts.reserved - facts.native_reserved, Bytes(0));
  const Bytes idle = facts.reserved - facts.allocated - facts.awaiting - facts.unusable;
  return std::max(facts.requested - std::min(facts.device_free, may_take) - idle, Bytes(0));
}

OutOfMemoryVerdict JudgeOutOfMemory(const OutOfMemoryFacts& facts, Bytes leaked) {
  // What a CUDA context and the libraries in it take is no news, and nobody can have it back: an eighth of the device,
  // within these limits. They take half a GiB on a small GPU, too, yet a GiB of one of 2 GiB is worth a look.
  constexpr int64_t kUsualPart = 8;
  constexpr Bytes kLeastUsual = MiB(640);
  constexpr Bytes kMostUsual = GiB(2);
  const Bytes usual = std::clamp(Bytes(facts.device_total.count() / kUsualPart), kLeastUsual, kMostUsual);
  // Where memory is full, some always lies beside small blocks.
  constexpr int64_t kLeastFragmentedPart = 64;
  const bool is_fragmented =
      facts.unusable >= facts.requested && facts.unusable.count() >= facts.reserved.count() / kLeastFragmentedPart;
  struct Cause {
    OutOfMemoryVerdict verdict;
    Bytes bytes;
  };
  Cause greatest = {OutOfMemoryVerdict::kTooBig, Bytes(0)};
  for (const Cause& cause : {Cause{OutOfMemoryVerdict::kLeak, leaked},
                             Cause{OutOfMemoryVerdict::kFragmentation, is_fragmented ? facts.unusable : Bytes(0)},
                             Cause{OutOfMemoryVerdict::kOutside, facts.outside - usual}}) {
    if (cause.bytes > greatest.bytes && cause.bytes >= facts.missing) greatest = cause;
  }
  return greatest.verdict;
}

}  // namespace frugal
