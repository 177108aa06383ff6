// A GPU, by way of the CUDA driver: the port of allocator/device.h on the device's primary context, which is the
// one that the CUDA runtime uses, too.

#ifndef FRUGAL_CUDA_DRIVER_DEVICE_H_
#define FRUGAL_CUDA_DRIVER_DEVICE_H_

#include <cuda.h>

#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "allocator/device.h"
#include "cuda/driver_api.h"

namespace frugal {

// Thread-safety: any thread. No call depends on the context or the stream capture mode of the calling thread, nor
// changes them for the caller.
class DriverDevice final : public Device {
 public:
  // The device that CUDA numbers `ordinal`, with its primary context held until the object goes.
  // kFailedPrecondition: there is no driver or no such device.
  // `tries_memory`: virtual memory is tried before it is relied on, since the driver may promise more than it keeps.
  static absl::StatusOr<std::unique_ptr<DriverDevice>> Open(int ordinal, bool tries_memory = IsUnderWindows());

  // The GPU is Windows', seen from its Linux (WSL).
  static bool IsUnderWindows();

  ~DriverDevice() override;

  // `peer` may read and write this device's mapped memory from now on, both what is mapped already and what will be.
  // REQUIRES: the driver can reach this device from `peer`. Nothing to do for segments of cudaMalloc, which peer
  // access of the contexts covers.
  absl::Status AllowPeer(int peer);

  bool HasVirtualMemory() const override { return virtual_memory_; }
  absl::StatusOr<MemoryInfo> GetMemoryInfo() override;

  absl::StatusOr<Address> Reserve(Bytes size) override;
  absl::Status Unreserve(Address range, Bytes size) override;
  absl::StatusOr<PhysicalHandle> Create() override;
  absl::Status Release(PhysicalHandle handle) override;
  absl::Status Map(Address page, PhysicalHandle handle) override;
  absl::Status SetAccess(Address start, Bytes size) override;
  absl::Status Unmap(Address start, Bytes size) override;

  absl::StatusOr<Address> Malloc(Bytes size) override;
  absl::Status Free(Address segment) override;

  // kUnavailable while `stream` is captured: the event would be part of the graph, not of what the stream does now.
  absl::StatusOr<Event> Record(Stream stream) override;
  absl::StatusOr<bool> HasPassed(Event event) override;
  absl::Status StreamWait(Stream stream, Event event) override;
  absl::Status Synchronize(Event event) override;
  void Recycle(Event event) override;

 private:
  class DriverScope;

  DriverDevice(const DriverApi& api, int ordinal, CUdevice device, CUcontext context);

  // Asks the device what it can do; sets virtual_memory_ and allocation_.
  absl::Status Inspect();
  // Leaves out of allocation_ what the driver fails with; false if it cannot map memory at all.
  bool TryVirtualMemory();
  absl::Status MapOnePage();
  absl::Status CheckNotCapturing(Stream stream) const;
  absl::StatusOr<CUevent> TakeEvent();

  const DriverApi& api_;
  const int ordinal_;
  const CUdevice device_;
  const CUcontext context_;
  bool virtual_memory_ = false;
  CUmemAllocationProp allocation_ = {};

  absl::Mutex access_mutex_;
  std::vector<CUmemAccessDesc> access_ ABSL_GUARDED_BY(access_mutex_);
  // Start and end of each accessible range, none touching the next: what a new peer must be let into.
  std::map<Address, Address> accessible_ ABSL_GUARDED_BY(access_mutex_);

  absl::Mutex events_mutex_;
  std::vector<CUevent> idle_events_ ABSL_GUARDED_BY(events_mutex_);
};

}  // namespace frugal

#endif  // FRUGAL_CUDA_DRIVER_DEVICE_H_
