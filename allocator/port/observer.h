// What a device's memory goes through, told to whoever records it.

#pragma once

#include "absl/functional/function_ref.h"
#include "allocator/port/device.h"
#include "allocator/port/pool_id.h"
#include "allocator/port/units.h"

namespace frugal {

struct MemoryEvent {
  enum class Kind {
    kAllocate,
    kFreeRequested,    // the owner gave the block back
    kFreeCompleted,    // and every stream that used it has passed
    kMap,              // pages became part of an address range
    kUnmap,            // pages left it: their handles moved elsewhere or went back to the device
    kSegmentAllocate,  // a segment of cudaMalloc
    kSegmentFree,
  };
  Kind kind;
  Address address;
  Bytes size;
  Bytes requested;  // of a block, as the caller asked for it; of pages and segments, their size
  Stream stream;
  // The owner's own note on the block (Block::annotation); null for pages and segments.
  void* annotation;
  // What Observer::Origin said in the thread that did it.
  const void* origin = nullptr;
  PoolId pool = {};
};

class Observer {
 public:
  virtual ~Observer() = default;
  // Called in the order in which things happened, one at a time, with no lock of the allocator's held, by the thread
  // that did it or another that called the allocator then. It may call the allocator; what that does is told
  // afterwards. What it throws is thrown by the allocator's call that did it, once that has done its work: a block that
  // was to be handed out is given back first.
  virtual void OnMemoryEvent(const MemoryEvent& event) = 0;
  // The block that carried `annotation` is free again: the annotation has no owner now. Called as above.
  virtual void DropAnnotation(void* annotation) = 0;
  // What the calling thread is about, to be told with its event: valid until the call that it makes has ended. Called
  // with the locks held: it must not call the allocator, nor throw. null: nothing.
  virtual const void* Origin() const { return nullptr; }
};

// What else can give memory back. But for GiveBackReleased these are for a device that is full: they are called with no
// lock held, in this order, each only if the one before did not help.
class Reclaimer {
 public:
  virtual ~Reclaimer() = default;
  // Memory that others will not use again, whether the device is full or not, if nobody has to wait for it. It is cheap
  // to ask whether there may be some; the second is called with no lock held. True if some came back.
  virtual bool HasReleased() const { return false; }
  virtual bool GiveBackReleased() { return false; }
  // Memory that others cache on this device without using it. True if some came back.
  virtual bool ReleaseCaches() = 0;
  // Objects that nothing uses any more but that still hold memory (a language's garbage). True if some were found.
  virtual bool CollectGarbage() = 0;
  // Memory that other processes hold on this device without using it, of which `wanted` is enough. True if any were
  // asked: whether something came back, the device says.
  virtual bool AskNeighbours(Bytes /*wanted*/) { return false; }
  // Calls `wait`, in which the host waits for the whole device, unless a stream of the device is perhaps being captured
  // into a graph, which that would end with an error. No capture begins meanwhile, as far as it is in the hands of who
  // is asked here. A lock of the allocator's may be held: it must not call the allocator.
  virtual void WithoutCapture(absl::FunctionRef<void()> wait) const { wait(); }
};

}  // namespace frugal
