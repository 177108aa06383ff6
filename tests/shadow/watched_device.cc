#include "tests/shadow/watched_device.h"

namespace frugal::shadow {

absl::StatusOr<Address> WatchedDevice::Reserve(Bytes size) {
  absl::StatusOr<Address> start = ForwardingDevice::Reserve(size);
  if (start.ok()) memory_.Reserved(*start, size);
  return start;
}

absl::Status WatchedDevice::Unreserve(Address range, Bytes size) {
  absl::Status status = ForwardingDevice::Unreserve(range, size);
  if (status.ok()) memory_.Unreserved(range);
  return status;
}

absl::StatusOr<PhysicalHandle> WatchedDevice::Create(Bytes size) {
  absl::StatusOr<PhysicalHandle> handle = ForwardingDevice::Create(size);
  if (handle.ok()) memory_.Created(handle->id, size);
  return handle;
}

absl::Status WatchedDevice::Release(PhysicalHandle handle) {
  absl::Status status = ForwardingDevice::Release(handle);
  if (status.ok()) memory_.Released(handle.id);
  return status;
}

absl::Status WatchedDevice::Map(Address start, Bytes size, PhysicalHandle handle) {
  absl::Status status = ForwardingDevice::Map(start, size, handle);
  if (status.ok()) memory_.Mapped(start, size, handle.id);
  return status;
}

absl::Status WatchedDevice::SetAccess(Address start, Bytes size) {
  absl::Status status = ForwardingDevice::SetAccess(start, size);
  if (status.ok()) memory_.AccessSet(start, size);
  return status;
}

absl::Status WatchedDevice::Unmap(Address start, Bytes size) {
  absl::Status status = ForwardingDevice::Unmap(start, size);
  if (status.ok()) memory_.Unmapped(start, size);
  return status;
}

absl::StatusOr<Address> WatchedDevice::Malloc(Bytes size) {
  absl::StatusOr<Address> start = ForwardingDevice::Malloc(size);
  if (start.ok()) memory_.SegmentMade(*start, size);
  return start;
}

absl::Status WatchedDevice::Free(Address segment) {
  absl::Status status = ForwardingDevice::Free(segment);
  if (status.ok()) memory_.SegmentGone(segment);
  return status;
}

absl::StatusOr<Event> WatchedDevice::Record(Stream stream) {
  absl::StatusOr<Event> event = ForwardingDevice::Record(stream);
  if (event.ok()) order_.Recorded(stream, *event);
  return event;
}

absl::StatusOr<bool> WatchedDevice::HasPassed(Event event) {
  absl::StatusOr<bool> passed = ForwardingDevice::HasPassed(event);
  if (passed.ok() && *passed) order_.HostSaw(event);
  return passed;
}

absl::Status WatchedDevice::StreamWait(Stream stream, Event event) {
  absl::Status status = ForwardingDevice::StreamWait(stream, event);
  if (status.ok()) order_.StreamWaits(stream, event);
  return status;
}

absl::Status WatchedDevice::Synchronize(Event event) {
  absl::Status status = ForwardingDevice::Synchronize(event);
  if (status.ok()) order_.HostSaw(event);
  return status;
}

absl::Status WatchedDevice::SynchronizeAll() {
  absl::Status status = ForwardingDevice::SynchronizeAll();
  if (status.ok()) order_.HostSawEverything();
  return status;
}

void WatchedDevice::Recycle(Event event) {
  order_.Forget(event);
  ForwardingDevice::Recycle(event);
}

}  // namespace frugal::shadow
