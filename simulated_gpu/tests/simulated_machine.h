// A simulated machine in this process whose clock stands still, and what most tests do with one.

#pragma once

#include <memory>
#include <utility>

#include "gtest/gtest.h"
#include "simulated_gpu/machine/machine.h"

namespace frugal::sim {

class SimulatedMachine : public testing::Test {
 protected:
  using Access = VirtualMemory::Access;
  using HandleId = VirtualMemory::HandleId;

  static constexpr Bytes kPage = kPageSize;

  explicit SimulatedMachine(const Configuration& configuration = {.gpus = 2}) : machine_(configuration) {
    machine_.clock().Set(Nanoseconds(0));
  }

  // --- Streams.

  Stream& NewStream(Stream::Kind kind = Stream::Kind::kNonBlocking, int gpu = 0) {
    return *streams_.Create(gpu, kind, /*priority=*/0);
  }
  Stream& LegacyStream() { return *streams_.Find(Streams::kLegacyHandle, 0); }
  Event* RecordOn(Stream& stream) {
    Event* event = streams_.events().Create();
    EXPECT_EQ(streams_.events().Record(event, stream), Error::kSuccess);
    return event;
  }
  void Wait(Stream& waiter, Stream& waited) {
    ASSERT_EQ(streams_.events().StreamWait(waiter, RecordOn(waited)), Error::kSuccess);
  }
  // A kernel.
  void Launch(Stream& stream, Nanoseconds duration) {
    ASSERT_EQ(streams_.Launch(stream, {WorkKind::kKernel, duration, nullptr}), Error::kSuccess);
  }
  void Begin(Stream& stream, CaptureMode mode = CaptureMode::kGlobal) {
    ASSERT_EQ(streams_.captures().Begin(stream, mode, std::make_shared<Graph>(), {}), Error::kSuccess);
  }
  Nanoseconds now() { return machine_.clock().Now(); }

  // --- Memory.

  Error TryMalloc(Bytes size, Address* start, int gpu = 0) {
    return machine_.segments().Malloc(gpu, size, Segments::Kind::kDevice, start);
  }
  Address Malloc(Bytes size, int gpu = 0) {
    Address start;
    EXPECT_EQ(TryMalloc(size, &start, gpu), Error::kSuccess);
    return start;
  }
  Address Reserve(Bytes size) {
    Address start;
    EXPECT_EQ(memory_.Reserve(size, kPage, Address(), &start), Error::kSuccess);
    return start;
  }
  HandleId Create(Bytes size = kPage, int gpu = 0) {
    HandleId handle = 0;
    EXPECT_EQ(memory_.Create(gpu, size, &handle), Error::kSuccess);
    return handle;
  }
  void MapWithAccess(Address start, Bytes size, HandleId handle) {
    ASSERT_EQ(memory_.Map(start, size, handle), Error::kSuccess);
    ASSERT_EQ(memory_.SetAccess(start, size, {{0, Access::kReadWrite}}), Error::kSuccess);
  }
  PhysicalMemory& physical(int gpu = 0) { return machine_.gpu(gpu).memory(); }
  Bytes used(int gpu = 0) { return physical(gpu).used(); }

  Machine machine_;
  Streams& streams_ = machine_.streams();
  VirtualMemory& memory_ = machine_.virtual_memory();
};

}  // namespace frugal::sim
