#include "tests/shadow/watched_device.h"

namespace frugal::shadow {

bool WatchedDevice::Succeeded(const absl::Status& status, Bytes needed) {
  if (status.ok()) return true;
  const bool is_full = absl::IsResourceExhausted(status) && simulated_.machine().gpu(0).memory().free() < needed;
  if (!is_full && !absl::IsUnavailable(status)) ++faults_;
  return false;
}

absl::StatusOr<MemoryInfo> WatchedDevice::GetMemoryInfo() {
  absl::StatusOr<MemoryInfo> info = ForwardingDevice::GetMemoryInfo();
  static_cast<void>(Succeeded(info.status()));
  return info;
}

absl::StatusOr<Address> WatchedDevice::Reserve(Bytes size) {
  absl::StatusOr<Address> start = ForwardingDevice::Reserve(size);
  if (Succeeded(start.status())) memory_.Reserved(*start, size);
  return start;
}

absl::Status WatchedDevice::Unreserve(Address range, Bytes size) {
  absl::Status status = ForwardingDevice::Unreserve(range, size);
  if (Succeeded(status)) memory_.Unreserved(range);
  return status;
}

absl::StatusOr<PhysicalHandle> WatchedDevice::Create(Bytes size) {
  absl::StatusOr<PhysicalHandle> handle = ForwardingDevice::Create(size);
  if (Succeeded(handle.status(), size)) memory_.Created(handle->id, size);
  return handle;
}

absl::Status WatchedDevice::Release(PhysicalHandle handle) {
  absl::Status status = ForwardingDevice::Release(handle);
  if (Succeeded(status)) memory_.Released(handle.id);
  return status;
}

absl::Status WatchedDevice::Map(Address start, Bytes size, PhysicalHandle handle) {
  absl::Status status = ForwardingDevice::Map(start, size, handle);
  if (Succeeded(status)) memory_.Mapped(start, size, handle.id);
  return status;
}

absl::Status WatchedDevice::SetAccess(Address start, Bytes size) {
  absl::Status status = ForwardingDevice::SetAccess(start, size);
  if (Succeeded(status)) memory_.AccessSet(start, size);
  return status;
}

absl::Status WatchedDevice::Unmap(Address start, Bytes size) {
  absl::Status status = ForwardingDevice::Unmap(start, size);
  if (Succeeded(status)) memory_.Unmapped(start, size);
  return status;
}

absl::StatusOr<Address> WatchedDevice::Malloc(Bytes size) {
  absl::StatusOr<Address> start = ForwardingDevice::Malloc(size);
  if (Succeeded(start.status(), size)) memory_.SegmentMade(*start, size);
  return start;
}

absl::Status WatchedDevice::Free(Address segment) {
  absl::Status status = ForwardingDevice::Free(segment);
  if (Succeeded(status)) memory_.SegmentGone(segment);
  return status;
}

absl::StatusOr<Event> WatchedDevice::Record(Stream stream) {
  absl::StatusOr<Event> event = ForwardingDevice::Record(stream);
  if (Succeeded(event.status())) order_.Recorded(stream, *event);
  return event;
}

absl::StatusOr<bool> WatchedDevice::HasPassed(Event event) {
  absl::StatusOr<bool> passed = ForwardingDevice::HasPassed(event);
  if (Succeeded(passed.status()) && *passed) order_.HostSaw(event);
  return passed;
}

absl::Status WatchedDevice::StreamWait(Stream stream, Event event) {
  absl::Status status = ForwardingDevice::StreamWait(stream, event);
  if (Succeeded(status)) order_.StreamWaits(stream, event);
  return status;
}

absl::Status WatchedDevice::Synchronize(Event event) {
  absl::Status status = ForwardingDevice::Synchronize(event);
  if (Succeeded(status)) order_.HostSaw(event);
  return status;
}

absl::Status WatchedDevice::SynchronizeAll() {
  absl::Status status = ForwardingDevice::SynchronizeAll();
  if (Succeeded(status)) order_.HostSawEverything();
  return status;
}

void WatchedDevice::Recycle(Event event) {
  order_.Forget(event);
  ForwardingDevice::Recycle(event);
}

}  // namespace frugal::shadow
