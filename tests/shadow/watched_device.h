// A device that tells the models of every call that succeeds.

#ifndef FRUGAL_TESTS_SHADOW_WATCHED_DEVICE_H_
#define FRUGAL_TESTS_SHADOW_WATCHED_DEVICE_H_

#include "tests/devices/forwarding_device.h"
#include "tests/shadow/memory_model.h"
#include "tests/shadow/stream_order.h"

namespace frugal::shadow {

class WatchedDevice final : public ForwardingDevice {
 public:
  WatchedDevice(Device& device, MemoryModel& memory, StreamOrder& order)
      : ForwardingDevice(device), memory_(memory), order_(order) {}

  absl::StatusOr<Address> Reserve(Bytes size) override {
    absl::StatusOr<Address> start = ForwardingDevice::Reserve(size);
    if (start.ok()) memory_.Reserved(*start, size);
    return start;
  }
  absl::Status Unreserve(Address range, Bytes size) override {
    absl::Status status = ForwardingDevice::Unreserve(range, size);
    if (status.ok()) memory_.Unreserved(range);
    return status;
  }
  absl::StatusOr<PhysicalHandle> Create(Bytes size) override {
    absl::StatusOr<PhysicalHandle> handle = ForwardingDevice::Create(size);
    if (handle.ok()) memory_.Created(handle->id, size);
    return handle;
  }
  absl::Status Release(PhysicalHandle handle) override {
    absl::Status status = ForwardingDevice::Release(handle);
    if (status.ok()) memory_.Released(handle.id);
    return status;
  }
  absl::Status Map(Address start, Bytes size, PhysicalHandle handle) override {
    absl::Status status = ForwardingDevice::Map(start, size, handle);
    if (status.ok()) memory_.Mapped(start, size, handle.id);
    return status;
  }
  absl::Status SetAccess(Address start, Bytes size) override {
    absl::Status status = ForwardingDevice::SetAccess(start, size);
    if (status.ok()) memory_.AccessSet(start, size);
    return status;
  }
  absl::Status Unmap(Address start, Bytes size) override {
    absl::Status status = ForwardingDevice::Unmap(start, size);
    if (status.ok()) memory_.Unmapped(start, size);
    return status;
  }
  absl::StatusOr<Address> Malloc(Bytes size) override {
    absl::StatusOr<Address> start = ForwardingDevice::Malloc(size);
    if (start.ok()) memory_.SegmentMade(*start, size);
    return start;
  }
  absl::Status Free(Address segment) override {
    absl::Status status = ForwardingDevice::Free(segment);
    if (status.ok()) memory_.SegmentGone(segment);
    return status;
  }
  absl::StatusOr<Event> Record(Stream stream) override {
    absl::StatusOr<Event> event = ForwardingDevice::Record(stream);
    if (event.ok()) order_.Recorded(stream, *event);
    return event;
  }
  absl::StatusOr<bool> HasPassed(Event event) override {
    absl::StatusOr<bool> passed = ForwardingDevice::HasPassed(event);
    if (passed.ok() && *passed) order_.HostSaw(event);
    return passed;
  }
  absl::Status StreamWait(Stream stream, Event event) override {
    absl::Status status = ForwardingDevice::StreamWait(stream, event);
    if (status.ok()) order_.StreamWaits(stream, event);
    return status;
  }
  absl::Status Synchronize(Event event) override {
    absl::Status status = ForwardingDevice::Synchronize(event);
    if (status.ok()) order_.HostSaw(event);
    return status;
  }
  absl::Status SynchronizeAll() override {
    absl::Status status = ForwardingDevice::SynchronizeAll();
    if (status.ok()) order_.HostSawEverything();
    return status;
  }
  void Recycle(Event event) override {
    order_.Forget(event);
    ForwardingDevice::Recycle(event);
  }

 private:
  MemoryModel& memory_;
  StreamOrder& order_;
};

}  // namespace frugal::shadow

#endif  // FRUGAL_TESTS_SHADOW_WATCHED_DEVICE_H_
