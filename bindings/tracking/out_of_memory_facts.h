// All that is known of a request that could not be served.

#ifndef FRUGAL_BINDINGS_TRACKING_OUT_OF_MEMORY_FACTS_H_
#define FRUGAL_BINDINGS_TRACKING_OUT_OF_MEMORY_FACTS_H_

#include <string>

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
  Bytes allocated;  // in tensors
  Bytes awaiting;   // freed, but a stream may still use it
  Bytes reserved;   // by us
  Bytes native_reserved;
  Bytes limit;
  Bytes device_free;
  Bytes device_total;
  Bytes outside;       // in use, neither ours nor native's
  Bytes largest_free;  // block of ours
  Bytes unusable;      // free, but beside blocks in use in the same handle
  Remedies gained;
  const char* limit_name = "";  // what set `limit`
  std::string host;             // where the GPU's memory is the host's: who has it, for people; else ""
  Bytes host_own;               // pageable memory of this process, then
};

}  // namespace frugal

#endif  // FRUGAL_BINDINGS_TRACKING_OUT_OF_MEMORY_FACTS_H_
