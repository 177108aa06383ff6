#include "cuda/copy_ring.h"

#include <algorithm>
#include <cstring>

#include "absl/status/statusor.h"

namespace frugal {
namespace {

size_t ToDriver(Bytes size) { return static_cast<size_t>(size.count()); }

}  // namespace

absl::Status CopyRing::Make() {
  for (Buffer& buffer : buffers_) {
    if (buffer.copied != nullptr) continue;
    absl::Status status = api_.ToStatus(api_.EventCreate(&buffer.copied, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    if (!status.ok()) return status;
  }
  if (memory_ != nullptr) return absl::OkStatus();
  return api_.ToStatus(api_.MemHostAlloc(&memory_, ToDriver(kBuffer * kBuffers), 0), "cuMemHostAlloc");
}

absl::Status CopyRing::GiveBack() {
  absl::Status first;
  for (Buffer& buffer : buffers_) {
    if (buffer.copied == nullptr) continue;
    absl::Status status = api_.ToStatus(api_.EventDestroy(buffer.copied), "cuEventDestroy");
    if (status.ok()) buffer.copied = nullptr;
    first.Update(status);
  }
  if (memory_ == nullptr) return first;
  absl::Status status = api_.ToStatus(api_.MemFreeHost(memory_), "cuMemFreeHost");
  if (status.ok()) memory_ = nullptr;
  first.Update(status);
  return first;
}

absl::StatusOr<CopyRing::Landing> CopyRing::Take(Address host, Bytes size, CUstream stream) {
  if (buffers_[current_].used == kBuffer) {
    absl::Status status = api_.ToStatus(api_.EventRecord(buffers_[current_].copied, stream), "cuEventRecord");
    if (!status.ok()) return status;
    current_ = (current_ + 1) % kBuffers;
    Buffer& next = buffers_[current_];
    if (next.used > Bytes(0)) {
      const DriverTimes::Stopwatch stopwatch(times_, DriverCall::sync);
      status = api_.ToStatus(api_.EventSynchronize(next.copied), "cuEventSynchronize");
    }
    if (!status.ok()) return status;
    Land(next);
  }
  Buffer& buffer = buffers_[current_];
  const Landing room{host, Address(memory_) + kBuffer * current_ + buffer.used, std::min(size, kBuffer - buffer.used)};
  buffer.used += room.size;
  return room;
}

absl::Status CopyRing::CopyOut(Address device, Address host, Bytes size, CUstream stream) {
  for (Bytes done; done < size;) {
    const absl::StatusOr<Landing> room = Take(host + done, size - done, stream);
    if (!room.ok()) return room.status();
    absl::Status status = api_.ToStatus(
        api_.MemcpyDtoHAsync(room->buffer.pointer(), (device + done).value(), ToDriver(room->size), stream),
        "cuMemcpyDtoHAsync");
    if (!status.ok()) return status;
    buffers_[current_].landings.push_back(*room);
    done += room->size;
  }
  return absl::OkStatus();
}

absl::Status CopyRing::CopyIn(Address device, Address host, Bytes size, CUstream stream) {
  for (Bytes done; done < size;) {
    const absl::StatusOr<Landing> room = Take(host + done, size - done, stream);
    if (!room.ok()) return room.status();
    std::memcpy(room->buffer.pointer(), room->host.pointer(), ToDriver(room->size));
    absl::Status status = api_.ToStatus(
        api_.MemcpyHtoDAsync((device + done).value(), room->buffer.pointer(), ToDriver(room->size), stream),
        "cuMemcpyHtoDAsync");
    if (!status.ok()) return status;
    done += room->size;
  }
  return absl::OkStatus();
}

void CopyRing::Land() {
  for (Buffer& buffer : buffers_) Land(buffer);
}

void CopyRing::Land(Buffer& buffer) {
  for (const Landing& landing : buffer.landings) {
    std::memcpy(landing.host.pointer(), landing.buffer.pointer(), ToDriver(landing.size));
  }
  buffer.landings.clear();
  buffer.used = Bytes(0);
}

}  // namespace frugal
