// The simulated GPU with a log of all that happens on it.

#pragma once

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

  void Succeeded(const MadeCall& call) override {
    switch (call.kind) {
      case Call::kCreate:
        // The number of a handle that was released may come again, for other memory.
        physical_[call.handle.id] = {next_physical_++, call.size > kPageSize, false};
        large_.created += call.size > kPageSize;
        return;
      case Call::kRelease:
        large_.released += physical_.at(call.handle.id).is_large;
        return;
      case Call::kMap:
        return NoteMapped(call, physical_.at(call.handle.id));
      case Call::kUnmap:
        return NoteIfReported(log_.Unmap(call.start, call.size));
      case Call::kMalloc:
        log_.Map(call.start, call.size, next_physical_++);
        segments_[call.start.value()] = call.size;
        return;
      case Call::kFree:
        return NoteIfReported(log_.Unmap(call.start, segments_.at(call.start.value())));
      case Call::kRecord:
        return log_.Record(call.stream, call.event);
      case Call::kHasPassed:
      case Call::kSynchronize:
        return log_.HostSees(call.event);
      case Call::kStreamWait:
        return log_.Wait(call.stream, call.event);
      case Call::kSynchronizeAll:
        return log_.HostSeesAll();
      default:
        return;
    }
  }
  void NoteMapped(const MadeCall& call, Physical& physical) {
    large_.mapped_again += physical.is_large && physical.was_mapped;
    physical.was_mapped = true;
    log_.Map(call.start, call.size, physical.number);
  }
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
