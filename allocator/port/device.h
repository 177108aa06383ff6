// The port: all that the allocation policy asks of a device, stated once.
//
// Implementations: cuda/driver_device.h (a real GPU, by the CUDA driver) and
// simulated_gpu/machine/simulated_device.h (the simulated GPU, in the same process).
//
// Errors, by what the caller can do about them:
//   kResourceExhausted  the device is out of memory: give some back and try again.
//   kAborted            of Map and SetAccess: there is no place for another mapping, of which all processes of a
//   machine
//                       share so many, though memory is free: unmap what nobody uses and try again.
//   kUnavailable        not now, because the stream is being captured into a graph: try again later.
//   kUnknown            of Record: the driver does not say whether the stream is being captured, which it may be.
//   anything else       the driver failed; the message carries its own name for the error. A failed
//                       call has changed nothing.
// All calls may be made from any thread, and by several at a time; of those that change what is mapped, or take or give
// back memory, the policy makes one at a time.

#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allocator/port/units.h"

namespace frugal {

// A stream of work on the device, in order. Of two words, so that it is passed in registers.
struct Stream {
  // The value of a cudaStream_t (0: the legacy default stream).
  uint64_t id = 0;
  // The driver's context that the stream is of, where that is not the device's primary one: a green context, or one of
  // another GPU. 0: the device's primary context. The default streams of two contexts are two streams. A pointer of a
  // program has 48 bits at most, unless it asks the system for addresses beyond.
  uint64_t context : 48 = 0;
  // 0: it lasts as long as the program does. Else the program may destroy it at any time, and the next stream may get
  // its handle: this number tells apart the streams that have one handle one after the other. Such a stream is touched
  // only while the program names it, which is when memory is asked for on it, said to be used on it, or given back
  // after such a use.
  uint64_t life : 16 = 0;

  constexpr bool lasts() const { return life == 0; }
  // All but the handle; one comparison.
  constexpr uint64_t which() const { return uint64_t{context} | uint64_t{life} << 48; }

  friend constexpr bool operator==(Stream a, Stream b) { return a.id == b.id && a.which() == b.which(); }
  friend constexpr auto operator<=>(Stream a, Stream b) {
    const auto by_id = a.id <=> b.id;
    return by_id != 0 ? by_id : a.which() <=> b.which();
  }
  template <typename H>
  friend H AbslHashValue(H h, Stream s) {
    return H::combine(std::move(h), s.id, s.which());
  }
};

// A piece of physical memory, as the driver names it. 0 names none.
struct PhysicalHandle {
  uint64_t id = 0;
  friend constexpr bool operator==(PhysicalHandle, PhysicalHandle) = default;
};

// A point in a stream's work. 0 names none.
struct Event {
  uint64_t id = 0;
  friend constexpr bool operator==(Event, Event) = default;
};

// A point in what is captured of a stream: a node of the graph, or the capture's beginning (node 0). No two captures of
// a process have one number.
struct CapturePoint {
  uint64_t capture = 0;
  uint64_t node = 0;
  friend constexpr auto operator<=>(CapturePoint, CapturePoint) = default;
};

struct MemoryInfo {
  Bytes free;
  Bytes total;
};

class Device {
 public:
  virtual ~Device() = default;

  // False: only Malloc and Free serve (an old GPU, or a driver that lacks virtual memory management).
  virtual bool HasVirtualMemory() const = 0;
  virtual absl::StatusOr<MemoryInfo> GetMemoryInfo() = 0;

  // --- Virtual memory. Every address and size is a multiple of kPageSize.

  // A range of addresses with nothing behind it.
  virtual absl::StatusOr<Address> Reserve(Bytes size) = 0;
  // REQUIRES: the whole of a reserved range, nothing mapped in it.
  virtual absl::Status Unreserve(Address range, Bytes size) = 0;
  // Physical memory, in one piece.
  virtual absl::StatusOr<PhysicalHandle> Create(Bytes size) = 0;
  // Gives the handle back. The memory itself goes when the last view of it is unmapped.
  virtual absl::Status Release(PhysicalHandle handle) = 0;
  // Makes the whole of `handle`, which is of that size, visible from `start` on; it may be visible elsewhere, too. Not
  // accessible before SetAccess.
  virtual absl::Status Map(Address start, Bytes size, PhysicalHandle handle) = 0;
  // Lets this device, and its peers with access, read and write [start, start + size), all of it mapped.
  virtual absl::Status SetAccess(Address start, Bytes size) = 0;
  // REQUIRES: [start, start + size) is mapped whole, by whole handles, and no work that touches it is outstanding:
  // unmapping under a running kernel faults.
  virtual absl::Status Unmap(Address start, Bytes size) = 0;

  // --- Segments, for devices without virtual memory.

  virtual absl::StatusOr<Address> Malloc(Bytes size) = 0;
  // REQUIRES: no work that touches it is outstanding. Drivers have waited for all work of the device here, but CUDA 13
  // only says that it may.
  virtual absl::Status Free(Address segment) = 0;

  // --- Stream order.

  // The point that `stream` has been told to reach so far. kNotFound: the program has destroyed it.
  virtual absl::StatusOr<Event> Record(Stream stream) = 0;
  virtual absl::StatusOr<bool> HasPassed(Event event) = 0;
  // `stream` does nothing further before `event` has passed; the host does not wait.
  virtual absl::Status StreamWait(Stream stream, Event event) = 0;
  // The host waits until `event` has passed.
  virtual absl::Status Synchronize(Event event) = 0;
  // The host waits for all work on the device: of every stream, destroyed ones, too. REQUIRES: no stream is being
  // captured, which this would end with an error.
  virtual absl::Status SynchronizeAll() = 0;
  // The event is not needed any more; the device may hand it out again.
  virtual void Recycle(Event event) = 0;

  // --- Order within a capture. A device need not know it.

  // The points, at least one, that together are what `stream` has been told so far within its capture. kUnavailable: it
  // is not being captured, or nobody wants to know.
  virtual absl::StatusOr<std::vector<CapturePoint>> MarkInCapture(Stream /*stream*/) {
    return absl::UnavailableError("the device does not tell the order within a capture");
  }
  // Those of `points` that all comes after which `waiter` is told from now on, in each launch of the graph. None of
  // another capture than the waiter's.
  virtual std::vector<CapturePoint> BehindInCapture(Stream /*waiter*/, const std::vector<CapturePoint>& /*points*/) {
    return {};
  }
};

}  // namespace frugal
