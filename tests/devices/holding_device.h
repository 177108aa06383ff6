// A device that keeps a thread inside one of its calls: for tests of what others can do meanwhile.

#ifndef FRUGAL_TESTS_DEVICES_HOLDING_DEVICE_H_
#define FRUGAL_TESTS_DEVICES_HOLDING_DEVICE_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "tests/devices/forwarding_device.h"

namespace frugal {

// All that may take the driver its time.
enum class Call {
  kMemoryInfo,
  kReserve,
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
constexpr const char* kCallNames[] = {"memory_info", "reserve", "create",      "release",        "map",
                                      "set_access",  "unmap",   "malloc",      "free",           "record",
                                      "has_passed",  "wait",    "synchronize", "synchronize_all"};

// Keeps the thread that makes the nth call of a kind inside it until it may go on. The call fails then, and as many of
// the kind after it as were asked for.
class HoldingDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  void Hold(Call call, int nth, int failures) {
    absl::MutexLock lock(&mutex_);
    call_ = call;
    calls_until_ = nth;
    failures_ = failures;
  }
  // False: End came first.
  bool AwaitHeld() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](HoldingDevice* self) { return self->is_held_ || self->has_ended_; }, this));
    return is_held_;
  }
  void GoOn() {
    absl::MutexLock lock(&mutex_);
    is_held_ = false;
  }
  // Nobody is held or failed any more.
  void End() {
    absl::MutexLock lock(&mutex_);
    has_ended_ = true;
  }
  int failed() const {
    absl::MutexLock lock(&mutex_);
    return failed_;
  }

  absl::StatusOr<MemoryInfo> GetMemoryInfo() override {
    return After(Call::kMemoryInfo, [&] { return ForwardingDevice::GetMemoryInfo(); });
  }
  absl::StatusOr<Address> Reserve(Bytes size) override {
    return After(Call::kReserve, [&] { return ForwardingDevice::Reserve(size); });
  }
  absl::StatusOr<PhysicalHandle> Create(Bytes size) override {
    return After(Call::kCreate, [&] { return ForwardingDevice::Create(size); });
  }
  absl::Status Release(PhysicalHandle handle) override {
    return After(Call::kRelease, [&] { return ForwardingDevice::Release(handle); });
  }
  absl::Status Map(Address start, Bytes size, PhysicalHandle handle) override {
    return After(Call::kMap, [&] { return ForwardingDevice::Map(start, size, handle); });
  }
  absl::Status SetAccess(Address start, Bytes size) override {
    return After(Call::kSetAccess, [&] { return ForwardingDevice::SetAccess(start, size); });
  }
  absl::Status Unmap(Address start, Bytes size) override {
    return After(Call::kUnmap, [&] { return ForwardingDevice::Unmap(start, size); });
  }
  absl::StatusOr<Address> Malloc(Bytes size) override {
    return After(Call::kMalloc, [&] { return ForwardingDevice::Malloc(size); });
  }
  absl::Status Free(Address segment) override {
    return After(Call::kFree, [&] { return ForwardingDevice::Free(segment); });
  }
  absl::StatusOr<Event> Record(Stream stream) override {
    return After(Call::kRecord, [&] { return ForwardingDevice::Record(stream); });
  }
  absl::StatusOr<bool> HasPassed(Event event) override {
    return After(Call::kHasPassed, [&] { return ForwardingDevice::HasPassed(event); });
  }
  absl::Status StreamWait(Stream stream, Event event) override {
    return After(Call::kStreamWait, [&] { return ForwardingDevice::StreamWait(stream, event); });
  }
  absl::Status Synchronize(Event event) override {
    return After(Call::kSynchronize, [&] { return ForwardingDevice::Synchronize(event); });
  }
  absl::Status SynchronizeAll() override {
    return After(Call::kSynchronizeAll, [&] { return ForwardingDevice::SynchronizeAll(); });
  }

 private:
  // The call's answer, once the thread may go on, unless the call is to fail.
  template <typename Do>
  auto After(Call call, Do&& carry_out) -> decltype(carry_out()) {
    if (absl::Status status = Come(call); !status.ok()) return status;
    return carry_out();
  }
  absl::Status Come(Call call) {
    absl::MutexLock lock(&mutex_);
    if (call != call_ || has_ended_) return absl::OkStatus();
    if (--calls_until_ == 0) {
      is_held_ = true;
      mutex_.Await(absl::Condition(
          +[](HoldingDevice* self) { return !self->is_held_; }, this));
    }
    if (calls_until_ > 0 || failures_ == 0) return absl::OkStatus();
    --failures_;
    ++failed_;
    return absl::InternalError("the driver fails");
  }

  mutable absl::Mutex mutex_;
  Call call_ = Call::kMap;
  int calls_until_ = 0;
  int failures_ = 0;
  int failed_ = 0;
  bool is_held_ = false;
  bool has_ended_ = false;
};

}  // namespace frugal

#endif  // FRUGAL_TESTS_DEVICES_HOLDING_DEVICE_H_
