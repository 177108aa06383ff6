// A GPU, by way of the CUDA driver: the port of allocator/port/device.h on the device's primary context, which is the
// one that the CUDA runtime uses, too.

#pragma once

#include <cuda.h>

#include <atomic>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "allocator/port/device.h"
#include "cuda/address_ranges.h"
#include "cuda/capture_order.h"
#include "cuda/driver_api.h"
#include "cuda/driver_times.h"
#include "cuda/host_copies.h"
#include "cuda/stream_lives.h"
#include "cuda/unified_memory.h"

namespace frugal {

// Streams may be of other contexts (Stream::context): events are made and recorded in the context of their stream, as
// CUDA wants it; asked about, waited for and given back in any. The per-thread default stream counts as the legacy one,
// which waits for all threads' and they for it, since a call may come from another thread than the one that is meant.
//
// Thread-safety: any thread. No call depends on the context or the stream capture mode of the calling thread, nor
// changes them for the caller.
class DriverDevice final : public Device {
 public:
  // The device that CUDA numbers `ordinal`, with its primary context held until the object goes.
  // kFailedPrecondition: there is no driver or no such device.
  //
  // A page and a large handle are mapped, each at two addresses at once, and unmapped before virtual memory is relied
  // on, since the driver may promise more than it keeps: under WSL, on a virtual GPU, in a confidential machine. That
  // takes less than half a millisecond by the table of costs, once for each GPU.
  static absl::StatusOr<std::unique_ptr<DriverDevice>> Open(int ordinal);

  ~DriverDevice() override;

  // `peer` may read and write this device's mapped memory from now on, both what is mapped already and what will be.
  // REQUIRES: the driver can reach this device from `peer`. Nothing to do for segments of cudaMalloc, which peer
  // access of the contexts covers.
  absl::Status AllowPeer(int peer);

  // --- As Stream::context has them.

  // The device's primary context.
  uint64_t primary_context() const { return reinterpret_cast<uint64_t>(context_); }
  // The calling thread's context, whose default streams are meant by the handles of default streams; 0: the device's
  // primary one, or none. Called for each block that is asked for on a default stream.
  uint64_t CurrentContext() const {
    CUcontext current = nullptr;
    const CUresult result = api_.CtxGetCurrent(&current);
    return result != CUDA_SUCCESS || current == context_ ? 0 : reinterpret_cast<uint64_t>(current);
  }

  // See StreamLives.
  Stream WithLife(Stream stream) { return lives_.Name(stream); }

  // Whether memory that is given back within a capture may be used again there: see CaptureOrder.
  void SetReuseInCapture(bool reuse) { capture_order_.SetWanted(reuse); }

  // What the driver promises and does not keep, and what is lost by it: one line for people; "" if nothing.
  const std::string& broken_promise() const { return broken_promise_; }
  // The device's name, and "GPU-" with its UUID, by which all processes know it; "" where the driver does not say.
  std::string Name() const;
  std::string Uuid() const;
  // Of this device's memory.
  HostCopies& host_copies() { return *host_copies_; }
  // How long the calls since Open have taken.
  const DriverTimes& times() const { return times_; }
  // The host's memory, where that is the device's; nullptr: the device has its own.
  UnifiedMemory* unified() { return unified_.get(); }
  const UnifiedMemory* unified() const { return unified_.get(); }

  bool HasVirtualMemory() const override { return virtual_memory_; }
  // Where the memory is the host's, free is what that can give before it would swap or kill.
  absl::StatusOr<MemoryInfo> GetMemoryInfo() override;

  absl::StatusOr<Address> Reserve(Bytes size) override;
  absl::Status Unreserve(Address range, Bytes size) override;
  // Also kResourceExhausted where the memory is the host's and that has none to spare, which is looked up again as
  // handles are made: others may take it meanwhile.
  absl::StatusOr<PhysicalHandle> Create(Bytes size) override;
  absl::Status Release(PhysicalHandle handle) override;
  // These two run out of more than memory: of the driver's own places for what is mapped, which all processes of a
  // machine share. They answer kAborted then, and say so, since no memory given back helps.
  absl::Status Map(Address start, Bytes size, PhysicalHandle handle) override;
  absl::Status SetAccess(Address start, Bytes size) override;
  absl::Status Unmap(Address start, Bytes size) override;

  absl::StatusOr<Address> Malloc(Bytes size) override;
  absl::Status Free(Address segment) override;

  // kUnavailable while `stream` is captured: the event would be part of the graph, not of what the stream does now. Of
  // a stream that the program may destroy, kNotFound if its handle names another by now, or none.
  absl::StatusOr<Event> Record(Stream stream) override;
  absl::StatusOr<bool> HasPassed(Event event) override;
  absl::Status StreamWait(Stream stream, Event event) override;
  absl::Status Synchronize(Event event) override;
  absl::Status SynchronizeAll() override;
  void Recycle(Event event) override;

  // Answers only while SetReuseInCapture holds.
  absl::StatusOr<std::vector<CapturePoint>> MarkInCapture(Stream stream) override;
  std::vector<CapturePoint> BehindInCapture(Stream waiter, const std::vector<CapturePoint>& points) override;

 private:
  DriverDevice(const DriverApi& api, int ordinal, CUdevice device, CUcontext context);

  // Asks the device what it can do; sets virtual_memory_ and allocation_.
  absl::Status Inspect();
  // Leaves out of allocation_ what the driver fails with; unsets virtual_memory_ if it cannot map memory at all.
  void TryVirtualMemory();
  // With a handle of `size` that is seen at two addresses at once.
  absl::Status TryMapping(Bytes size);
  // After the trial has run out of memory.
  bool MayBeFull();
  // Where the process's control group has a limit: whether it is one on the device's memory.
  absl::Status LearnWhatGroupCounts();
  // kResourceExhausted: the host whose memory it is has no page to spare.
  absl::Status CheckHost(Bytes size);
  // `failure` of a call that maps memory, in words where it cannot be what it says: the device has memory.
  absl::Status ExplainMapping(absl::Status failure);
  // The context that the stream is of.
  CUcontext ContextOf(Stream stream) const {
    return stream.context == 0 ? context_ : reinterpret_cast<CUcontext>(stream.context);
  }
  absl::Status CheckNotCapturing(Stream stream) const;
  // Of the reservation that the address lies in.
  AddressRanges& AccessibleAround(Address address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(access_mutex_) {
    return std::prev(accessible_.upper_bound(address))->second;
  }
  // REQUIRES: `context` is current.
  absl::StatusOr<CUevent> TakeEvent(CUcontext context);

  const DriverApi& api_;
  const int ordinal_;
  const CUdevice device_;
  const CUcontext context_;
  StreamLives lives_{api_, context_};
  CaptureOrder capture_order_{api_};
  bool virtual_memory_ = false;
  std::unique_ptr<UnifiedMemory> unified_;
  // That may be made before the host is looked at again.
  std::atomic<int64_t> pages_of_look_{0};
  CUmemAllocationProp allocation_ = {};
  std::string broken_promise_;
  DriverTimes times_;
  std::unique_ptr<HostCopies> host_copies_ = std::make_unique<HostCopies>(api_, context_, times_);

  absl::Mutex access_mutex_;
  std::vector<CUmemAccessDesc> access_ ABSL_GUARDED_BY(access_mutex_);
  // What a new peer must be let into, by the start of its reservation: no call may reach from one into the next.
  std::map<Address, AddressRanges> accessible_ ABSL_GUARDED_BY(access_mutex_);

  absl::Mutex events_mutex_;
  // Of the primary context.
  std::vector<CUevent> idle_events_ ABSL_GUARDED_BY(events_mutex_);
  // In use. They are not used again: their context may end, and another may have its handle then.
  std::unordered_set<CUevent> events_of_other_contexts_ ABSL_GUARDED_BY(events_mutex_);
};

}  // namespace frugal
