#include "bindings/tracking/out_of_memory_verdict.h"

#include <algorithm>

namespace frugal {
namespace {

// What could be taken of the GPU at once, were so much of it free: a limit holds whatever is free.
Bytes TakeableBytes(const OutOfMemoryFacts& facts, Bytes device_free) {
  return std::min(device_free, std::max(facts.limit - facts.reserved - facts.native_reserved, Bytes(0)));
}

}  // namespace

Bytes MissingBytes(const OutOfMemoryFacts& facts) {
  const Bytes idle = facts.reserved - facts.allocated - facts.awaiting - facts.unusable - facts.kept;
  return std::max(facts.requested - TakeableBytes(facts, facts.device_free) - idle, Bytes(0));
}

OutOfMemoryVerdict JudgeOutOfMemory(const OutOfMemoryFacts& facts, Bytes leaked) {
  // What a CUDA context and the libraries in it take is no news, and nobody can have it back: an eighth of the device,
  // within these limits. They take half a GiB on a small GPU, too, yet a GiB of one of 2 GiB is worth a look.
  constexpr int64_t kUsualPart = 8;
  constexpr Bytes kLeastUsual = MiB(640);
  constexpr Bytes kMostUsual = GiB(2);
  const Bytes usual = std::clamp(Bytes(facts.device_total.count() / kUsualPart), kLeastUsual, kMostUsual);
  const Bytes gained_outside = TakeableBytes(facts, facts.device_free + std::max(facts.outside - usual, Bytes(0))) -
                               TakeableBytes(facts, facts.device_free);
  // Where memory is full, some always lies beside small blocks: in each of seven size classes some pages are not full.
  constexpr int64_t kLeastFragmentedPart = 64;
  constexpr Bytes kLeastFragmented = MiB(32);
  const bool is_fragmented =
      facts.unusable >= facts.requested &&
      facts.unusable >= std::max(Bytes(facts.reserved.count() / kLeastFragmentedPart), kLeastFragmented);
  struct Cause {
    OutOfMemoryVerdict verdict;
    Bytes bytes;
  };
  Cause greatest = {OutOfMemoryVerdict::kTooBig, Bytes(0)};
  for (const Cause& cause : {Cause{OutOfMemoryVerdict::kLeak, leaked},
                             Cause{OutOfMemoryVerdict::kFragmentation, is_fragmented ? facts.unusable : Bytes(0)},
                             Cause{OutOfMemoryVerdict::kOutside, gained_outside}}) {
    if (cause.bytes > greatest.bytes && cause.bytes >= facts.missing) greatest = cause;
  }
  return greatest.verdict;
}

const char* NameOf(OutOfMemoryVerdict verdict) {
  switch (verdict) {
    case OutOfMemoryVerdict::kTooBig:
      return "too_big";
    case OutOfMemoryVerdict::kLeak:
      return "leak";
    case OutOfMemoryVerdict::kFragmentation:
      return "fragmentation";
    case OutOfMemoryVerdict::kOutside:
      return "outside";
  }
  return "";
}

std::optional<OutOfMemoryVerdict> VerdictNamed(std::string_view name) {
  using enum OutOfMemoryVerdict;
  for (const OutOfMemoryVerdict verdict : {kTooBig, kLeak, kFragmentation, kOutside}) {
    if (name == NameOf(verdict)) return verdict;
  }
  return std::nullopt;
}

}  // namespace frugal
