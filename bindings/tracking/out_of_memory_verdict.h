// All that is known of a request that could not be served, and why it was not, in one word. Pure: facts in, verdict
// out.

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "allocator/miss_ladder.h"
#include "allocator/port/units.h"

namespace frugal {

// What to change first.
enum class OutOfMemoryVerdict { kTooBig, kLeak, kFragmentation, kOutside };

struct OutOfMemoryFacts {
  int gpu = 0;
  OutOfMemoryVerdict verdict = OutOfMemoryVerdict::kTooBig;
  int site = 0;  // that asks
  Bytes requested;
  Bytes missing;    // by so much it did not fit
  Bytes allocated;  // in tensors that are awake
  Bytes asleep;     // in those that sleep, which have no physical memory
  Bytes awaiting;   // freed, but a stream may still use it
  Bytes reserved;   // by us
  Bytes native_reserved;
  Bytes limit;
  Bytes device_free;
  Bytes device_total;
  Bytes outside;       // in use, neither ours nor native's
  Bytes largest_free;  // block of ours
  Bytes unusable;      // free, but beside blocks in use in the same handle
  Bytes kept;          // free, but private pools keep it
  Remedies gained;
  const char* limit_name = "";  // what set `limit`
  std::string host;             // where the GPU's memory is the host's: who has it, for people; else ""
  Bytes host_own;               // pageable memory of this process, then
};

// By how much the request did not fit: what it asks for, less what could be had at once, were it asked for in the right
// pieces.
Bytes MissingBytes(const OutOfMemoryFacts& facts);

// Of the causes without which the request would have fit, the one with the most bytes. `leaked`: what leaks keep,
// suspected ones included. REQUIRES: facts.missing is known.
OutOfMemoryVerdict JudgeOutOfMemory(const OutOfMemoryFacts& facts, Bytes leaked);

// The name by which a verdict is told to others: "too_big", "leak", "fragmentation" or "outside".
const char* NameOf(OutOfMemoryVerdict verdict);
// nullopt: no verdict has this name.
std::optional<OutOfMemoryVerdict> VerdictNamed(std::string_view name);

}  // namespace frugal
