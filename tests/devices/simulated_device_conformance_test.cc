// The suite over the simulated GPU in the same process, with virtual memory and without.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "simulated_gpu/machine/simulated_device.h"
#include "tests/devices/device_conformance.h"

namespace frugal {
namespace {

class SimulatedDeviceUnderTest final : public DeviceUnderTest {
 public:
  explicit SimulatedDeviceUnderTest(bool virtual_memory)
      : device_({.memory = GiB(1), .virtual_memory = virtual_memory, .backing = sim::Backing::kMemory}) {}

  Device& device() override { return device_; }
  Stream NewStream() override { return Stream{next_stream_++}; }
  void Occupy(Stream stream) override { device_.MakeBusyUntil(stream, device_.now() + sim::Nanoseconds(1000)); }
  // The clock goes on while the host waits.
  void LetWorkEnd() override {}
  void EndWork() override { device_.AdvanceTo(device_.now() + sim::Nanoseconds(1000)); }
  void BeginCapture(Stream stream) override { device_.BeginCapture(stream); }
  bool EndCapture(Stream stream) override { return device_.EndCapture(stream); }
  void Write(Address start, std::string_view bytes) override {
    std::copy(bytes.begin(), bytes.end(), static_cast<char*>(start.pointer()));
  }
  std::string Read(Address start, Bytes size) override {
    return {static_cast<char*>(start.pointer()), static_cast<size_t>(size.count())};
  }
  bool SetFaults(std::string_view plan) override { return device_.SetFaults(plan); }

 private:
  sim::SimulatedDevice device_;
  uint64_t next_stream_ = 1;
};

template <bool virtual_memory>
std::unique_ptr<DeviceUnderTest> Make() {
  return std::make_unique<SimulatedDeviceUnderTest>(virtual_memory);
}

INSTANTIATE_TEST_SUITE_P(SimulatedDevice, DeviceConformance, testing::Values(&Make<true>));
INSTANTIATE_TEST_SUITE_P(SimulatedDevice, VirtualMemoryConformance, testing::Values(&Make<true>));
INSTANTIATE_TEST_SUITE_P(SimulatedDeviceOfSegments, DeviceConformance, testing::Values(&Make<false>));

}  // namespace
}  // namespace frugal
