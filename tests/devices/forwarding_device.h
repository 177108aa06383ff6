// A device that hands every call on to another: for those that change some of them.

#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allocator/port/device.h"

namespace frugal {

// All that may take the driver its time.
enum class Call {
  kMemoryInfo,
  kReserve,
  kUnreserve,
  kCreate,
  kRelease,
  kMap,
  kSetAccess,
  kUnmap,
  kMalloc,
  kFree,
  kRecord,
  kHasPassed,
  kStreamWait,
  kSynchronize,
  kSynchronizeAll,
};
constexpr const char* kCallNames[] = {"memory_info", "reserve",    "unreserve", "create",      "release",
                                      "map",         "set_access", "unmap",     "malloc",      "free",
                                      "record",      "has_passed", "wait",      "synchronize", "synchronize_all"};

// A call, what it was given and what it answered: the address of a new range or segment, a new handle, an event.
struct MadeCall {
  Call kind;
  Address start = {};
  Bytes size = {};
  PhysicalHandle handle = {};
  Stream stream = {};
  Event event = {};
};

class ForwardingDevice : public Device {
 public:
  explicit ForwardingDevice(Device& device) : device_(device) {}
  // Else one before another forwarding device would be a copy of it.
  ForwardingDevice(const ForwardingDevice&) = delete;
  ForwardingDevice& operator=(const ForwardingDevice&) = delete;

  bool HasVirtualMemory() const override { return device_.HasVirtualMemory(); }
  absl::StatusOr<MemoryInfo> GetMemoryInfo() override {
    return After({Call::kMemoryInfo}, [&] { return device_.GetMemoryInfo(); });
  }
  absl::StatusOr<Address> Reserve(Bytes size) override {
    return After({Call::kReserve, {}, size}, [&] { return device_.Reserve(size); });
  }
  absl::Status Unreserve(Address range, Bytes size) override {
    return After({Call::kUnreserve, range, size}, [&] { return device_.Unreserve(range, size); });
  }
  absl::StatusOr<PhysicalHandle> Create(Bytes size) override {
    return After({Call::kCreate, {}, size}, [&] { return device_.Create(size); });
  }
  absl::Status Release(PhysicalHandle handle) override {
    return After({Call::kRelease, {}, {}, handle}, [&] { return device_.Release(handle); });
  }
  absl::Status Map(Address start, Bytes size, PhysicalHandle handle) override {
    return After({Call::kMap, start, size, handle}, [&] { return device_.Map(start, size, handle); });
  }
  absl::Status SetAccess(Address start, Bytes size) override {
    return After({Call::kSetAccess, start, size}, [&] { return device_.SetAccess(start, size); });
  }
  absl::Status Unmap(Address start, Bytes size) override {
    return After({Call::kUnmap, start, size}, [&] { return device_.Unmap(start, size); });
  }
  absl::StatusOr<Address> Malloc(Bytes size) override {
    return After({Call::kMalloc, {}, size}, [&] { return device_.Malloc(size); });
  }
  absl::Status Free(Address segment) override {
    return After({Call::kFree, segment}, [&] { return device_.Free(segment); });
  }
  absl::StatusOr<Event> Record(Stream stream) override {
    return After({Call::kRecord, {}, {}, {}, stream}, [&] { return device_.Record(stream); });
  }
  absl::StatusOr<bool> HasPassed(Event event) override {
    return After({Call::kHasPassed, {}, {}, {}, {}, event}, [&] { return device_.HasPassed(event); });
  }
  absl::Status StreamWait(Stream stream, Event event) override {
    return After({Call::kStreamWait, {}, {}, {}, stream, event}, [&] { return device_.StreamWait(stream, event); });
  }
  absl::Status Synchronize(Event event) override {
    return After({Call::kSynchronize, {}, {}, {}, {}, event}, [&] { return device_.Synchronize(event); });
  }
  absl::Status SynchronizeAll() override {
    return After({Call::kSynchronizeAll}, [&] { return device_.SynchronizeAll(); });
  }
  void Recycle(Event event) override { device_.Recycle(event); }
  absl::StatusOr<std::vector<CapturePoint>> MarkInCapture(Stream stream) override {
    return device_.MarkInCapture(stream);
  }
  std::vector<CapturePoint> BehindInCapture(Stream waiter, const std::vector<CapturePoint>& points) override {
    return device_.BehindInCapture(waiter, points);
  }

 private:
  // Asked before each call. Where it is not OK, it is the call's answer, and the call is not made.
  virtual absl::Status Before(Call) { return absl::OkStatus(); }
  // Told after each that succeeded; of kHasPassed only where the event has.
  virtual void Succeeded(const MadeCall&) {}
  // Told after that of each that was made.
  virtual void Made(Call) {}

  template <typename Do>
  auto After(MadeCall call, Do&& carry_out) -> decltype(carry_out()) {
    if (absl::Status status = Before(call.kind); !status.ok()) return status;
    auto answer = carry_out();
    if (answer.ok() && Enter(answer, call)) Succeeded(call);
    Made(call.kind);
    return answer;
  }
  static bool Enter(const absl::Status&, MadeCall&) { return true; }
  static bool Enter(const absl::StatusOr<MemoryInfo>&, MadeCall&) { return true; }
  static bool Enter(const absl::StatusOr<bool>& passed, MadeCall&) { return *passed; }
  static bool Enter(const absl::StatusOr<Address>& start, MadeCall& call) {
    call.start = *start;
    return true;
  }
  static bool Enter(const absl::StatusOr<PhysicalHandle>& handle, MadeCall& call) {
    call.handle = *handle;
    return true;
  }
  static bool Enter(const absl::StatusOr<Event>& event, MadeCall& call) {
    call.event = *event;
    return true;
  }

  Device& device_;
};

}  // namespace frugal
