// The simulated GPU with a log of all that happens on it.

#ifndef FRUGAL_TESTS_ORDER_LOGGED_DEVICE_H_
#define FRUGAL_TESTS_ORDER_LOGGED_DEVICE_H_

#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "simulated_gpu/machine/simulated_device.h"
#include "tests/devices/forwarding_device.h"
#include "tests/order/work_log.h"

namespace frugal {

// Beside each use and each unmap is noted whether the order checker reported it. Not thread-safe.
class LoggedDevice final : public ForwardingDevice {
 public:
  LoggedDevice(sim::SimulatedDevice& device, WorkLog& log) : ForwardingDevice(device), device_(device), log_(log) {}

  // What handles of more than one page went through.
  struct LargeHandles {
    int64_t created = 0;
    int64_t mapped_again = 0;
    int64_t released = 0;
  };
  const LargeHandles& large() const { return large_; }

  sim::SimulatedDevice& simulated() { return device_; }
  const WorkLog& log() const { return log_; }

  // As SimulatedDevice::Touch.
  void Touch(Stream stream, Address start, Bytes size, bool writes, std::string_view name) {
    device_.Touch(stream, start, size, writes, name);
    NoteIfReported(log_.Use(stream, start, size, writes));
  }

  absl::StatusOr<PhysicalHandle> Create(Bytes size) override {
    absl::StatusOr<PhysicalHandle> handle = ForwardingDevice::Create(size);
    // The number of a handle that was released may come again, for other memory.
    if (!handle.ok()) return handle;
    physical_[handle->id] = {next_physical_++, size > kPageSize, false};
    large_.created += size > kPageSize;
    return handle;
  }
  absl::Status Release(PhysicalHandle handle) override {
    absl::Status status = ForwardingDevice::Release(handle);
    if (status.ok()) large_.released += physical_.at(handle.id).is_large;
    return status;
  }
  absl::Status Map(Address start, Bytes size, PhysicalHandle handle) override {
    absl::Status status = ForwardingDevice::Map(start, size, handle);
    if (!status.ok()) return status;
    Physical& physical = physical_.at(handle.id);
    large_.mapped_again += physical.is_large && physical.was_mapped;
    physical.was_mapped = true;
    log_.Map(start, size, physical.number);
    return status;
  }
  absl::Status Unmap(Address start, Bytes size) override {
    absl::Status status = ForwardingDevice::Unmap(start, size);
    if (status.ok()) NoteIfReported(log_.Unmap(start, size));
    return status;
  }
  absl::StatusOr<Address> Malloc(Bytes size) override {
    absl::StatusOr<Address> segment = ForwardingDevice::Malloc(size);
    if (!segment.ok()) return segment;
    log_.Map(*segment, size, next_physical_++);
    segments_[segment->value()] = size;
    return segment;
  }
  absl::Status Free(Address segment) override {
    absl::Status status = ForwardingDevice::Free(segment);
    if (!status.ok()) return status;
    NoteIfReported(log_.Unmap(segment, segments_.at(segment.value())));
    return status;
  }
  absl::StatusOr<Event> Record(Stream stream) override {
    absl::StatusOr<Event> event = ForwardingDevice::Record(stream);
    if (event.ok()) log_.Record(stream, *event);
    return event;
  }
  absl::StatusOr<bool> HasPassed(Event event) override {
    absl::StatusOr<bool> passed = ForwardingDevice::HasPassed(event);
    if (passed.ok() && *passed) log_.HostSees(event);
    return passed;
  }
  absl::Status StreamWait(Stream stream, Event event) override {
    absl::Status status = ForwardingDevice::StreamWait(stream, event);
    if (status.ok()) log_.Wait(stream, event);
    return status;
  }
  absl::Status Synchronize(Event event) override {
    absl::Status status = ForwardingDevice::Synchronize(event);
    if (status.ok()) log_.HostSees(event);
    return status;
  }
  absl::Status SynchronizeAll() override {
    absl::Status status = ForwardingDevice::SynchronizeAll();
    if (status.ok()) log_.HostSeesAll();
    return status;
  }
  // A point after all that any stream was told so far, for the log alone.
  Event RecordAll() {
    const Event event{next_point_--};
    log_.RecordAll(event);
    return event;
  }

 private:
  struct Physical {
    uint64_t number;
    bool is_large;
    bool was_mapped;
  };

  void NoteIfReported(Moment moment) {
    if (device_.order_violations() > violations_) log_.NoteReported(moment);
    violations_ = device_.order_violations();
  }

  sim::SimulatedDevice& device_;
  WorkLog& log_;
  uint64_t violations_ = 0;
  uint64_t next_physical_ = 1;
  uint64_t next_point_ = ~uint64_t{0};
  LargeHandles large_;
  std::unordered_map<uint64_t, Physical> physical_;  // By handle.
  std::unordered_map<uint64_t, Bytes> segments_;     // By address.
};

}  // namespace frugal

#endif  // FRUGAL_TESTS_ORDER_LOGGED_DEVICE_H_
