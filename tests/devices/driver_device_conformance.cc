// The suite over DriverDevice, on GPU 0 of whichever libcuda.so.1 this process loads: the simulated one, or that of a
// real GPU. Without either it says so in one line, and passes; with --must_have_a_gpu it fails then.
//
// On a machine with a GPU that nobody else uses:
//   bazel test //tests/devices:gpu_conformance_test --test_arg=--must_have_a_gpu --test_output=errors
// The program, bazel-bin/tests/devices/gpu_conformance_test, can also be copied there and run by itself.

#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "cuda/driver_api.h"
#include "cuda/driver_device.h"
#include "simulated_gpu/machine/control.h"
#include "tests/devices/device_conformance.h"

namespace frugal {
namespace {

// nullptr: the loaded driver has no such function.
template <typename Function>
Function* InDriver(Function*, const char* symbol) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return reinterpret_cast<Function*>(dlsym(driver, symbol));
}

// By the name that cuda.h's macros give the function: the one whose declaration this was compiled with.
#define FRUGAL_NAME_OF(function) #function
#define FRUGAL_IN_DRIVER(function) InDriver(static_cast<decltype(&function)>(nullptr), FRUGAL_NAME_OF(function))

// What is the same on either: the program's own streams and captures.
class DriverDeviceUnderTest : public DeviceUnderTest {
 public:
  explicit DriverDeviceUnderTest(std::unique_ptr<DriverDevice> device) : device_(std::move(device)) {
    Check((*DriverApi::Get())->CtxPushCurrent(reinterpret_cast<CUcontext>(device_->primary_context())));
  }
  ~DriverDeviceUnderTest() override {
    for (const CUstream stream : streams_) Check(FRUGAL_IN_DRIVER(cuStreamDestroy)(stream));
    CUcontext popped = nullptr;
    Check((*DriverApi::Get())->CtxPopCurrent(&popped));
  }

  Device& device() override { return *device_; }
  Stream NewStream() override {
    CUstream stream = nullptr;
    Check(FRUGAL_IN_DRIVER(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    streams_.push_back(stream);
    return Stream{reinterpret_cast<uint64_t>(stream)};
  }
  void BeginCapture(Stream stream) override {
    Check(FRUGAL_IN_DRIVER(cuStreamBeginCapture)(Raw(stream), CU_STREAM_CAPTURE_MODE_GLOBAL));
  }
  bool EndCapture(Stream stream) override {
    CUgraph graph = nullptr;
    if (FRUGAL_IN_DRIVER(cuStreamEndCapture)(Raw(stream), &graph) != CUDA_SUCCESS) return false;
    Check(FRUGAL_IN_DRIVER(cuGraphDestroy)(graph));
    return true;
  }

 protected:
  static CUstream Raw(Stream stream) { return reinterpret_cast<CUstream>(stream.id); }
  static void Check(CUresult result) { EXPECT_EQ(result, CUDA_SUCCESS); }

 private:
  std::unique_ptr<DriverDevice> device_;
  std::vector<CUstream> streams_;
};

class SimulatedGpuUnderTest final : public DriverDeviceUnderTest {
 public:
  explicit SimulatedGpuUnderTest(std::unique_ptr<DriverDevice> device) : DriverDeviceUnderTest(std::move(device)) {
    EndWork();
  }

  void Occupy(Stream stream) override {
    FRUGAL_IN_DRIVER(frugal_sim_set_stream_busy_until)(Raw(stream), Now() + kWork);
  }
  // The clock goes on while the host waits.
  void LetWorkEnd() override {}
  void EndWork() override { FRUGAL_IN_DRIVER(frugal_sim_set_clock)(Now() += kWork); }
  void Write(Address start, std::string_view bytes) override {
    std::copy(bytes.begin(), bytes.end(), static_cast<char*>(start.pointer()));
  }
  std::string Read(Address start, Bytes size) override {
    return {static_cast<char*>(start.pointer()), static_cast<size_t>(size.count())};
  }
  bool SetFaults(std::string_view plan) override {
    return FRUGAL_IN_DRIVER(frugal_sim_set_faults)(std::string(plan.data(), plan.size()).c_str()) == 0;
  }

 private:
  static constexpr uint64_t kWork = 1'000'000'000;
  // The machine's time: it stands still but for us, and is one for all tests of the process.
  static uint64_t& Now() {
    static uint64_t now = 0;
    return now;
  }
};

class RealGpuUnderTest final : public DriverDeviceUnderTest {
 public:
  using DriverDeviceUnderTest::DriverDeviceUnderTest;
  ~RealGpuUnderTest() override { EndWork(); }

  void Occupy(Stream stream) override {
    const CUhostFn wait = [](void* end) { static_cast<absl::Notification*>(end)->WaitForNotification(); };
    Check(FRUGAL_IN_DRIVER(cuLaunchHostFunc)(Raw(stream), wait, &ends_.emplace_back()));
  }
  void LetWorkEnd() override {
    for (absl::Notification& end : ends_) {
      if (!end.HasBeenNotified()) end.Notify();
    }
  }
  void EndWork() override {
    LetWorkEnd();
    Check((*DriverApi::Get())->CtxSynchronize());
  }
  void Write(Address start, std::string_view bytes) override {
    Check(FRUGAL_IN_DRIVER(cuMemcpyHtoD)(start.value(), bytes.data(), bytes.size()));
  }
  std::string Read(Address start, Bytes size) override {
    std::string bytes(static_cast<size_t>(size.count()), '\0');
    Check(FRUGAL_IN_DRIVER(cuMemcpyDtoH)(bytes.data(), start.value(), bytes.size()));
    return bytes;
  }
  bool SetFaults(std::string_view) override { return false; }
  // Page tables, and pools of the driver's own.
  Bytes Drift() const override { return MiB(32); }

 private:
  // Each ends the work of one Occupy(). They stay until the work is over.
  std::list<absl::Notification> ends_;
};

std::unique_ptr<DeviceUnderTest> Make() {
  absl::StatusOr<std::unique_ptr<DriverDevice>> device = DriverDevice::Open(0);
  EXPECT_TRUE(device.ok()) << device.status();
  if (FRUGAL_IN_DRIVER(frugal_sim_set_clock) == nullptr) return std::make_unique<RealGpuUnderTest>(*std::move(device));
  return std::make_unique<SimulatedGpuUnderTest>(*std::move(device));
}

INSTANTIATE_TEST_SUITE_P(DriverDevice, DeviceConformance, testing::Values(&Make));
INSTANTIATE_TEST_SUITE_P(DriverDevice, VirtualMemoryConformance, testing::Values(&Make));

}  // namespace
}  // namespace frugal

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const bool must_have_a_gpu = std::find(argv + 1, argv + argc, std::string_view("--must_have_a_gpu")) != argv + argc;
  if (const absl::Status status = frugal::DriverDevice::Open(0).status(); !status.ok()) {
    std::fprintf(stderr, "skipped, since there is no GPU here: %s\n", status.ToString().c_str());
    return must_have_a_gpu ? EXIT_FAILURE : EXIT_SUCCESS;
  }
  return RUN_ALL_TESTS();
}
