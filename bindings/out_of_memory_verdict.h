// Why a request could not be served, in one word. Pure: facts in, verdict out.

#ifndef FRUGAL_BINDINGS_OUT_OF_MEMORY_VERDICT_H_
#define FRUGAL_BINDINGS_OUT_OF_MEMORY_VERDICT_H_

#include "allocator/units.h"
#include "bindings/c_api.h"

namespace frugal {

// frugal_out_of_memory::verdict: what to change first.
enum class OutOfMemoryVerdict { kTooBig, kLeak, kFragmentation, kOutside };

// By how much the request did not fit: what it asks for, less what could be had at once, were it asked for in the right
// pieces.
Bytes MissingBytes(const frugal_out_of_memory& facts);

// Of the causes without which the request would have fit, the one with the most bytes. `leaked`: what leaks keep,
// suspected ones included. REQUIRES: facts.missing is known.
OutOfMemoryVerdict JudgeOutOfMemory(const frugal_out_of_memory& facts, Bytes leaked);

}  // namespace frugal

#endif  // FRUGAL_BINDINGS_OUT_OF_MEMORY_VERDICT_H_
