#include "bindings/out_of_memory_verdict.h"

#include <algorithm>

namespace frugal {

Bytes MissingBytes(const frugal_out_of_memory& facts) {
  const int64_t may_take = std::max<int64_t>(facts.limit - facts.reserved - facts.native_reserved, 0);
  const int64_t idle = facts.reserved - facts.allocated - facts.awaiting - facts.unusable;
  return Bytes(std::max<int64_t>(facts.requested - std::min(facts.device_free, may_take) - idle, 0));
}

OutOfMemoryVerdict JudgeOutOfMemory(const frugal_out_of_memory& facts, Bytes leaked) {
  // What a CUDA context and the libraries in it take is no news, and nobody can have it back: an eighth of the device,
  // within these limits. They take half a GiB on a small GPU, too, yet a GiB of one of 2 GiB is worth a look.
  constexpr int64_t kUsualPart = 8;
  constexpr int64_t kLeastUsual = int64_t{640} << 20;
  constexpr int64_t kMostUsual = int64_t{2} << 30;
  const int64_t unusual = facts.outside - std::clamp(facts.device_total / kUsualPart, kLeastUsual, kMostUsual);
  // Where memory is full, some always lies beside small blocks.
  constexpr int64_t kLeastFragmentedPart = 64;
  const bool is_fragmented =
      facts.unusable >= facts.requested && facts.unusable >= facts.reserved / kLeastFragmentedPart;
  struct Cause {
    OutOfMemoryVerdict verdict;
    int64_t bytes;
  };
  Cause greatest = {OutOfMemoryVerdict::kTooBig, 0};
  for (const Cause& cause : {Cause{OutOfMemoryVerdict::kLeak, leaked.count()},
                             Cause{OutOfMemoryVerdict::kFragmentation, is_fragmented ? facts.unusable : 0},
                             Cause{OutOfMemoryVerdict::kOutside, unusual}}) {
    if (cause.bytes > greatest.bytes && cause.bytes >= facts.missing) greatest = cause;
  }
  return greatest.verdict;
}

}  // namespace frugal
