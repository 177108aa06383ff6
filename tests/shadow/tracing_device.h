// A device that prints each call and its answer on stdout: to see how a program of operations fails.

#ifndef FRUGAL_TESTS_SHADOW_TRACING_DEVICE_H_
#define FRUGAL_TESTS_SHADOW_TRACING_DEVICE_H_

#include <cstdio>
#include <string>

#include "absl/strings/str_format.h"
#include "tests/devices/forwarding_device.h"

namespace frugal::shadow {

class TracingDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  absl::StatusOr<Address> Reserve(Bytes size) override {
    absl::StatusOr<Address> start = ForwardingDevice::Reserve(size);
    return Told(absl::StrFormat("reserve %d at %#x", size.count(), start.value_or(Address()).value()), start);
  }
  absl::Status Unreserve(Address range, Bytes size) override {
    return Told(absl::StrFormat("unreserve %#x", range.value()), ForwardingDevice::Unreserve(range, size));
  }
  absl::StatusOr<PhysicalHandle> Create(Bytes size) override {
    absl::StatusOr<PhysicalHandle> handle = ForwardingDevice::Create(size);
    return Told(absl::StrFormat("create handle %d of %d", handle.value_or(PhysicalHandle()).id, size.count()), handle);
  }
  absl::Status Release(PhysicalHandle handle) override {
    return Told(absl::StrFormat("release handle %d", handle.id), ForwardingDevice::Release(handle));
  }
  absl::Status Map(Address start, Bytes size, PhysicalHandle handle) override {
    return Told(absl::StrFormat("map handle %d at %#x + %d", handle.id, start.value(), size.count()),
                ForwardingDevice::Map(start, size, handle));
  }
  absl::Status SetAccess(Address start, Bytes size) override {
    return Told(absl::StrFormat("set_access %#x + %d", start.value(), size.count()),
                ForwardingDevice::SetAccess(start, size));
  }
  absl::Status Unmap(Address start, Bytes size) override {
    return Told(absl::StrFormat("unmap %#x + %d", start.value(), size.count()), ForwardingDevice::Unmap(start, size));
  }
  absl::StatusOr<Address> Malloc(Bytes size) override {
    absl::StatusOr<Address> start = ForwardingDevice::Malloc(size);
    return Told(absl::StrFormat("malloc %d at %#x", size.count(), start.value_or(Address()).value()), start);
  }
  absl::Status Free(Address segment) override {
    return Told(absl::StrFormat("free %#x", segment.value()), ForwardingDevice::Free(segment));
  }
  absl::StatusOr<Event> Record(Stream stream) override {
    absl::StatusOr<Event> event = ForwardingDevice::Record(stream);
    return Told(absl::StrFormat("record event %d on %d", event.value_or(Event()).id, stream.id), event);
  }
  absl::StatusOr<bool> HasPassed(Event event) override {
    absl::StatusOr<bool> passed = ForwardingDevice::HasPassed(event);
    return Told(absl::StrFormat("event %d has passed: %d", event.id, passed.value_or(false)), passed);
  }
  absl::Status StreamWait(Stream stream, Event event) override {
    return Told(absl::StrFormat("stream %d waits for event %d", stream.id, event.id),
                ForwardingDevice::StreamWait(stream, event));
  }
  absl::Status Synchronize(Event event) override {
    return Told(absl::StrFormat("host waits for event %d", event.id), ForwardingDevice::Synchronize(event));
  }
  absl::Status SynchronizeAll() override { return Told("host waits for all work", ForwardingDevice::SynchronizeAll()); }

 private:
  static const absl::Status& StatusOf(const absl::Status& status) { return status; }
  template <typename T>
  static const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
    return result.status();
  }
  template <typename Result>
  static Result Told(const std::string& call, Result result) {
    const absl::Status& status = StatusOf(result);
    std::printf("    %s%s%s\n", call.c_str(), status.ok() ? "" : ": ", status.ok() ? "" : status.ToString().c_str());
    return result;
  }
};

}  // namespace frugal::shadow

#endif  // FRUGAL_TESTS_SHADOW_TRACING_DEVICE_H_
