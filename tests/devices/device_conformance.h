// What every Device promises, as one suite of claims for all of them: the port is allocator/port/device.h.
//
// How a new device joins:
// 1. Derive a class from DeviceUnderTest. It owns the device and does what a program around it would: it makes streams,
//    gives them work, and writes memory.
// 2. In a test of its own, which links //tests/devices:conformance, say for both suites:
//      INSTANTIATE_TEST_SUITE_P(Mine, DeviceConformance, testing::Values(&MakeMine));
//      INSTANTIATE_TEST_SUITE_P(Mine, VirtualMemoryConformance, testing::Values(&MakeMine));
//    where MakeMine() returns the class as a std::unique_ptr<DeviceUnderTest>.
// What only one device promises is tested beside that device, not here.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "allocator/port/device.h"
#include "gtest/gtest.h"

namespace frugal {

class DeviceUnderTest {
 public:
  virtual ~DeviceUnderTest() = default;

  // Of at least 256 MiB that are free.
  virtual Device& device() = 0;

  // Ordered with no other stream.
  virtual Stream NewStream() = 0;
  // Puts work into `stream` that goes on until LetWorkEnd() or EndWork().
  virtual void Occupy(Stream stream) = 0;
  // All such work is over once the host waits for it. It may be over before.
  virtual void LetWorkEnd() = 0;
  // All such work is over when this returns, without a call of the device.
  virtual void EndWork() = 0;

  // In the strictest mode that the device has.
  virtual void BeginCapture(Stream stream) = 0;
  // False: something has invalidated the capture.
  virtual bool EndCapture(Stream stream) = 0;

  // REQUIRES: the memory is mapped and accessible, or a segment's.
  virtual void Write(Address start, std::string_view bytes) = 0;
  virtual std::string Read(Address start, Bytes size) = 0;

  // From here on calls fail by a plan, as FRUGAL_SIM_FAULTS has it; "" ends the plan. False: this device cannot be made
  // to fail.
  virtual bool SetFaults(std::string_view plan) = 0;
  // By how much the device's free memory may move without a call of the test: by other processes, or by what the driver
  // takes for itself.
  virtual Bytes Drift() const { return Bytes(0); }
};

using MakeDeviceUnderTest = std::function<std::unique_ptr<DeviceUnderTest>()>;

// Claims on every device.
class DeviceConformance : public testing::TestWithParam<MakeDeviceUnderTest> {
 protected:
  DeviceConformance() : under_test_(GetParam()()), device_(under_test_->device()) {}

  Bytes FreeMemory();
  // Whether `bytes` is `expected`, but for the device's drift.
  testing::AssertionResult IsAbout(Bytes bytes, Bytes expected) const;
  // Whether the message carries the driver's own name for the error, which is in capitals here.
  static testing::AssertionResult NamesTheError(const absl::Status& status, std::string_view name);
  // The event's answer; false, and a failure of the test, if there is none.
  bool HasPassed(Event event);
  // The point that the stream has been told to reach so far. Given back when the test ends.
  Event RecordOn(Stream stream);
  void TearDown() override;

  const std::unique_ptr<DeviceUnderTest> under_test_;
  Device& device_;

 private:
  std::vector<Event> recorded_;
};

// Claims on virtual memory, of devices that have it.
class VirtualMemoryConformance : public DeviceConformance {
 protected:
  void SetUp() override;
  // Unmaps what is mapped, and gives everything back: a GPU may serve other tests after this one.
  void TearDown() override;

  // Given back when the test ends, as are the next two.
  Address Reserve(Bytes size);
  PhysicalHandle Create(Bytes size);
  // Maps all of `handle`. REQUIRES: `start` lies in a range of Reserve().
  void Map(Address start, Bytes size, PhysicalHandle handle);
  // Maps it and lets the device reach it.
  void MapOpen(Address start, Bytes size, PhysicalHandle handle);
  void Unmap(Address start, Bytes size);
  // Gives back a handle of Create() before the test ends.
  void Release(PhysicalHandle handle);

 private:
  std::vector<std::pair<Address, Bytes>> ranges_;
  std::vector<PhysicalHandle> handles_;
  std::vector<std::pair<Address, Bytes>> views_;
};

}  // namespace frugal
