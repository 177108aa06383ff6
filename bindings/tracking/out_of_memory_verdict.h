// Why a request could not be served, in one word. Pure: facts in, verdict out.

#ifndef FRUGAL_BINDINGS_TRACKING_OUT_OF_MEMORY_VERDICT_H_
#define FRUGAL_BINDINGS_TRACKING_OUT_OF_MEMORY_VERDICT_H_

#include <optional>
#include <string_view>

#include "allocator/port/units.h"
#include "bindings/tracking/out_of_memory_facts.h"

namespace frugal {

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

#endif  // FRUGAL_BINDINGS_TRACKING_OUT_OF_MEMORY_VERDICT_H_
