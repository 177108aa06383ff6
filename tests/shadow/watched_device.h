// A device that tells the models of every call that succeeds.

#pragma once

#include "tests/devices/forwarding_device.h"
#include "tests/shadow/memory_model.h"
#include "tests/shadow/stream_order.h"

namespace frugal::shadow {

class WatchedDevice final : public ForwardingDevice {
 public:
  WatchedDevice(Device& device, MemoryModel& memory, StreamOrder& order)
      : ForwardingDevice(device), memory_(memory), order_(order) {}

  void Recycle(Event event) override {
    order_.Forget(event);
    ForwardingDevice::Recycle(event);
  }

 private:
  void Succeeded(const MadeCall& call) override {
    switch (call.kind) {
      case Call::kMemoryInfo:
        return;
      case Call::kReserve:
        return memory_.Reserved(call.start, call.size);
      case Call::kUnreserve:
        return memory_.Unreserved(call.start);
      case Call::kCreate:
        return memory_.Created(call.handle.id, call.size);
      case Call::kRelease:
        return memory_.Released(call.handle.id);
      case Call::kMap:
        return memory_.Mapped(call.start, call.size, call.handle.id);
      case Call::kSetAccess:
        return memory_.AccessSet(call.start, call.size);
      case Call::kUnmap:
        return memory_.Unmapped(call.start, call.size);
      case Call::kMalloc:
        return memory_.SegmentMade(call.start, call.size);
      case Call::kFree:
        return memory_.SegmentGone(call.start);
      case Call::kRecord:
        return order_.Recorded(call.stream, call.event);
      case Call::kHasPassed:
      case Call::kSynchronize:
        return order_.HostSaw(call.event);
      case Call::kStreamWait:
        return order_.StreamWaits(call.stream, call.event);
      case Call::kSynchronizeAll:
        return order_.HostSawEverything();
    }
  }

  MemoryModel& memory_;
  StreamOrder& order_;
};

}  // namespace frugal::shadow
