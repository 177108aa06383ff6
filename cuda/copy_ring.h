// The way from a GPU to pageable host memory and back: some pinned buffers, one after the other, so that the CPU copies
// one while the GPU copies another.

#pragma once

#include <cuda.h>

#include <array>
#include <vector>

#include "absl/status/status.h"
#include "allocator/port/units.h"
#include "cuda/driver_api.h"
#include "cuda/driver_times.h"

namespace frugal {

// Methods are called in a DriverScope. Not thread-safe.
class CopyRing {
 public:
  // A choice, not a measurement: a buffer's copy takes a GPU much longer than its call takes the driver, and all of
  // them together fit the caches of a CPU.
  static constexpr Bytes kBuffer = MiB(2);
  static constexpr int kBuffers = 4;

  CopyRing(const DriverApi& api, DriverTimes& times) : api_(api), times_(times) {}
  CopyRing(const CopyRing&) = delete;
  CopyRing& operator=(const CopyRing&) = delete;

  // Memory and events, unless they are there.
  absl::Status Make();
  // What the driver fails with stays.
  absl::Status GiveBack();

  // Copies between device and host memory, of any size. They are done after Land(). REQUIRES: Make().
  absl::Status CopyOut(Address device, Address host, Bytes size, CUstream stream);
  absl::Status CopyIn(Address device, Address host, Bytes size, CUstream stream);
  // REQUIRES: the stream has been waited for.
  void Land();

  // What it has pinned.
  Bytes size() const { return memory_ == nullptr ? Bytes(0) : kBuffer * kBuffers; }

 private:
  // What goes from a buffer to the host.
  struct Landing {
    Address host;
    Address buffer;
    Bytes size;
  };
  struct Buffer {
    CUevent copied = nullptr;
    Bytes used;
    std::vector<Landing> landings;
  };

  // Of the current buffer, the room for at most `size`; another is current if that one is full.
  absl::StatusOr<Landing> Take(Address host, Bytes size, CUstream stream);
  void Land(Buffer& buffer);

  const DriverApi& api_;
  DriverTimes& times_;
  void* memory_ = nullptr;
  std::array<Buffer, kBuffers> buffers_;
  int current_ = 0;
};

}  // namespace frugal
