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

  absl::StatusOr<Address> Reserve(Bytes size) override;
  absl::Status Unreserve(Address range, Bytes size) override;
  absl::StatusOr<PhysicalHandle> Create(Bytes size) override;
  absl::Status Release(PhysicalHandle handle) override;
  absl::Status Map(Address start, Bytes size, PhysicalHandle handle) override;
  absl::Status SetAccess(Address start, Bytes size) override;
  absl::Status Unmap(Address start, Bytes size) override;
  absl::StatusOr<Address> Malloc(Bytes size) override;
  absl::Status Free(Address segment) override;
  absl::StatusOr<Event> Record(Stream stream) override;
  absl::StatusOr<bool> HasPassed(Event event) override;
  absl::Status StreamWait(Stream stream, Event event) override;
  absl::Status Synchronize(Event event) override;
  absl::Status SynchronizeAll() override;
  void Recycle(Event event) override;

 private:
  MemoryModel& memory_;
  StreamOrder& order_;
};

}  // namespace frugal::shadow

#endif  // FRUGAL_TESTS_SHADOW_WATCHED_DEVICE_H_
