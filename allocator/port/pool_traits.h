// How a private pool is served.

#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allocator/port/units.h"

namespace frugal {

// Where the segments of a pool come from in the device's place: functions of the program's own. Called with no lock of
// the allocator's held, by one thread at a time for each device.
class SegmentSource {
 public:
  virtual ~SegmentSource() = default;

  // kResourceExhausted: it has no memory.
  virtual absl::StatusOr<Address> Malloc(Bytes size) = 0;
  // REQUIRES: no work that touches the segment is outstanding.
  virtual absl::Status Free(Address segment) = 0;
};

struct PoolTraits {
  bool splits = true;                     // else a free block is handed out whole
  std::shared_ptr<SegmentSource> source;  // null: the device

  // As of every pool that nothing was said of.
  bool are_usual() const { return splits && source == nullptr; }
};

}  // namespace frugal
