#include "cuda/driver_device.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "cuda/driver_api.h"
#include "cuda/simulated/control.h"
#include "gtest/gtest.h"

namespace frugal {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

// The simulated driver in the place of the real one: a library that is loaded already is found by its name alone.
template <typename Function>
Function* InSimulation(Function*, const char* name) {
  static void* const runtime = [] {
    setenv("FRUGAL_SIM_GPUS", "2", 1);
    setenv("FRUGAL_SIM_MEMORY", "1073741824", 1);
    dlopen("cuda/simulated/exports/libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    return dlopen("cuda/simulated/exports/libcudart.so.13", RTLD_NOW | RTLD_GLOBAL);
  }();
  void* const found = runtime == nullptr ? nullptr : dlsym(RTLD_DEFAULT, name);
  EXPECT_NE(found, nullptr) << name << ": " << dlerror();
  return reinterpret_cast<Function*>(found);
}

#define SIMULATED(function) InSimulation(static_cast<decltype(&function)>(nullptr), #function)

// Time goes on only as the tests say, and never back.
uint64_t Later() {
  static uint64_t now = 0;
  return now += kSecond;
}

class DriverDeviceTest : public testing::Test {
 protected:
  DriverDeviceTest() {
    SIMULATED(frugal_sim_set_clock)(Later());
    absl::StatusOr<std::unique_ptr<DriverDevice>> opened = DriverDevice::Open(0);
    EXPECT_TRUE(opened.ok()) << opened.status();
    device_ = *std::move(opened);
  }
  ~DriverDeviceTest() override { SIMULATED(frugal_sim_set_faults)(""); }

  Stream NewStream() {
    cudaStream_t stream = nullptr;
    EXPECT_EQ(SIMULATED(cudaStreamCreate)(&stream), cudaSuccess);
    return Stream{reinterpret_cast<uint64_t>(stream)};
  }
  static cudaStream_t Raw(Stream stream) { return reinterpret_cast<cudaStream_t>(stream.id); }

  static void FailNext(const std::string& plan) { ASSERT_EQ(SIMULATED(frugal_sim_set_faults)(plan.c_str()), 0); }

  // A range of `pages`, mapped and accessible.
  Address MappedRange(int pages) {
    const Bytes size = kPageSize * pages;
    const Address range = *device_->Reserve(size);
    for (int i = 0; i < pages; ++i) {
      const PhysicalHandle handle = *device_->Create();
      EXPECT_TRUE(device_->Map(range + kPageSize * i, handle).ok());
      EXPECT_TRUE(device_->Release(handle).ok());
    }
    EXPECT_TRUE(device_->SetAccess(range, size).ok());
    return range;
  }

  std::unique_ptr<DriverDevice> device_;
};

TEST_F(DriverDeviceTest, MemoryThatCannotBeMappedIsNotReliedOn) {
  const uint64_t used = SIMULATED(frugal_sim_memory_used)(0);
  FailNext("set_access@1+=not_supported");
  EXPECT_FALSE((*DriverDevice::Open(0, /*tries_memory=*/true))->HasVirtualMemory());
  FailNext("create@1+=not_supported");
  EXPECT_FALSE((*DriverDevice::Open(0, /*tries_memory=*/true))->HasVirtualMemory());
  FailNext("");
  EXPECT_TRUE((*DriverDevice::Open(0, /*tries_memory=*/true))->HasVirtualMemory());
  EXPECT_EQ(SIMULATED(frugal_sim_memory_used)(0), used);
}

TEST_F(DriverDeviceTest, MemoryIsAskedForInAnotherWayBeforeItIsGivenUp) {
  FailNext("set_access@1=not_supported,set_access@2=not_supported");
  const std::unique_ptr<DriverDevice> device = *DriverDevice::Open(0, /*tries_memory=*/true);
  EXPECT_TRUE(device->HasVirtualMemory());
}

TEST_F(DriverDeviceTest, AFullDeviceSaysNothingAboutItsMemory) {
  FailNext("create@1+=out_of_memory");
  EXPECT_TRUE((*DriverDevice::Open(0, /*tries_memory=*/true))->HasVirtualMemory());
}

TEST_F(DriverDeviceTest, NoSuchGpuIsAFailedPrecondition) {
  const absl::Status status = DriverDevice::Open(99).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(absl::StrContains(status.message(), "no GPU 99")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "CUDA_ERROR_INVALID_DEVICE")) << status;
}

TEST_F(DriverDeviceTest, GpuWithVirtualMemoryHasIt) { EXPECT_TRUE(device_->HasVirtualMemory()); }

TEST_F(DriverDeviceTest, HandlesTakeTheDevicesMemory) {
  const Bytes before = device_->GetMemoryInfo()->free;
  const PhysicalHandle handle = *device_->Create();
  EXPECT_EQ(device_->GetMemoryInfo()->free, before - kPageSize);
  ASSERT_TRUE(device_->Release(handle).ok());
  EXPECT_EQ(device_->GetMemoryInfo()->free, before);
}

TEST_F(DriverDeviceTest, MappedMemoryCanBeWrittenAndIsOneThroughBothItsViews) {
  const Address range = *device_->Reserve(kPageSize * 2);
  const PhysicalHandle handle = *device_->Create();
  ASSERT_TRUE(device_->Map(range, handle).ok());
  ASSERT_TRUE(device_->Map(range + kPageSize, handle).ok());
  ASSERT_TRUE(device_->SetAccess(range, kPageSize * 2).ok());
  static_cast<char*>(range.pointer())[5] = 'x';
  EXPECT_EQ(static_cast<char*>((range + kPageSize).pointer())[5], 'x');
  EXPECT_TRUE(device_->Unmap(range, kPageSize * 2).ok());
  EXPECT_TRUE(device_->Release(handle).ok());
  EXPECT_TRUE(device_->Unreserve(range, kPageSize * 2).ok());
}

TEST_F(DriverDeviceTest, SegmentsOfMallocComeAndGo) {
  const Bytes before = device_->GetMemoryInfo()->free;
  const Address segment = *device_->Malloc(MiB(20));
  EXPECT_EQ(device_->GetMemoryInfo()->free, before - MiB(20));
  ASSERT_TRUE(device_->Free(segment).ok());
  EXPECT_EQ(device_->GetMemoryInfo()->free, before);
}

TEST_F(DriverDeviceTest, MemoryThatRunsOutIsResourceExhausted) {
  EXPECT_EQ(device_->Malloc(GiB(2)).status().code(), absl::StatusCode::kResourceExhausted);
  FailNext("create@1=out_of_memory");
  const absl::Status status = device_->Create().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(absl::StrContains(status.message(), "CUDA_ERROR_OUT_OF_MEMORY")) << status;
}

TEST_F(DriverDeviceTest, AddressesThatRunOutAreNotMemoryThatRunsOut) {
  FailNext("reserve@1=out_of_memory");
  const absl::Status status = device_->Reserve(kPageSize).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_NE(status.message().find("cuMemAddressReserve"), std::string::npos) << status;
}

TEST_F(DriverDeviceTest, OtherFailuresCarryTheCallAndTheDriversNameForThem) {
  const Address range = *device_->Reserve(kPageSize);
  const PhysicalHandle handle = *device_->Create();
  FailNext("map@1=invalid_value");
  const absl::Status status = device_->Map(range, handle);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(absl::StrContains(status.message(), "cuMemMap: CUDA_ERROR_INVALID_VALUE")) << status;
  ASSERT_TRUE(device_->Map(range, handle).ok());
  ASSERT_TRUE(device_->Unmap(range, kPageSize).ok());
  ASSERT_TRUE(device_->Release(handle).ok());
}

TEST_F(DriverDeviceTest, EventPassesWithTheWorkBeforeIt) {
  const Stream stream = NewStream();
  const uint64_t until = Later();
  SIMULATED(frugal_sim_set_stream_busy_until)(Raw(stream), until);
  const Event event = *device_->Record(stream);
  EXPECT_FALSE(*device_->HasPassed(event));
  SIMULATED(frugal_sim_set_clock)(until);
  EXPECT_TRUE(*device_->HasPassed(event));
  device_->Recycle(event);
}

TEST_F(DriverDeviceTest, StreamThatWaitsIsBusyAsLongAsTheOther) {
  const Stream busy = NewStream();
  const Stream waiting = NewStream();
  SIMULATED(frugal_sim_set_stream_busy_until)(Raw(busy), Later());
  const Event event = *device_->Record(busy);
  ASSERT_TRUE(device_->StreamWait(waiting, event).ok());
  const Event after = *device_->Record(waiting);
  EXPECT_FALSE(*device_->HasPassed(after));
  ASSERT_TRUE(device_->Synchronize(after).ok());
  EXPECT_TRUE(*device_->HasPassed(after));
  device_->Recycle(event);
  device_->Recycle(after);
}

TEST_F(DriverDeviceTest, EventsAreUsedAgain) {
  const Event first = *device_->Record(NewStream());
  device_->Recycle(first);
  EXPECT_EQ(*device_->Record(NewStream()), first);
}

TEST_F(DriverDeviceTest, EventThatCouldNotBeRecordedIsUsedAgain) {
  const Stream stream = NewStream();
  device_->Recycle(*device_->Record(stream));
  const uint64_t created = SIMULATED(frugal_sim_calls)("event_create");
  for (int time = 0; time < 3; ++time) {
    FailNext("event_record@1=invalid_value");
    EXPECT_FALSE(device_->Record(stream).ok());
  }
  EXPECT_TRUE(device_->Record(stream).ok());
  EXPECT_EQ(SIMULATED(frugal_sim_calls)("event_create"), created);
}

TEST_F(DriverDeviceTest, CapturedStreamIsUnavailableAndItsCaptureGoesOn) {
  const Stream captured = NewStream();
  const Stream other = NewStream();
  const Event event = *device_->Record(other);
  ASSERT_EQ(SIMULATED(cudaStreamBeginCapture)(Raw(captured), cudaStreamCaptureModeGlobal), cudaSuccess);
  EXPECT_EQ(device_->Record(captured).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(device_->StreamWait(captured, event).code(), absl::StatusCode::kUnavailable);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(SIMULATED(cudaStreamEndCapture)(Raw(captured), &graph), cudaSuccess);
  EXPECT_TRUE(device_->Record(captured).ok());
}

TEST_F(DriverDeviceTest, NoCallEndsAStrictCapture) {
  const Stream captured = NewStream();
  const Event event = *device_->Record(NewStream());
  ASSERT_EQ(SIMULATED(cudaStreamBeginCapture)(Raw(captured), cudaStreamCaptureModeGlobal), cudaSuccess);
  const Address range = MappedRange(2);
  EXPECT_TRUE(device_->HasPassed(event).ok());
  EXPECT_TRUE(device_->Synchronize(event).ok());
  EXPECT_TRUE(device_->Free(*device_->Malloc(MiB(4))).ok());
  EXPECT_TRUE(device_->Unmap(range, kPageSize * 2).ok());
  EXPECT_TRUE(device_->GetMemoryInfo().ok());
  EXPECT_TRUE(device_->Record(NewStream()).ok());
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(SIMULATED(cudaStreamEndCapture)(Raw(captured), &graph), cudaSuccess);
}

TEST_F(DriverDeviceTest, CallsLeaveTheThreadsDeviceAsItWas) {
  absl::StatusOr<std::unique_ptr<DriverDevice>> second = DriverDevice::Open(1);
  ASSERT_TRUE(second.ok()) << second.status();
  ASSERT_EQ(SIMULATED(cudaSetDevice)(0), cudaSuccess);
  const Bytes before = (*second)->GetMemoryInfo()->free;
  const PhysicalHandle handle = *(*second)->Create();
  int current = -1;
  EXPECT_EQ(SIMULATED(cudaGetDevice)(&current), cudaSuccess);
  EXPECT_EQ(current, 0);
  EXPECT_EQ((*second)->GetMemoryInfo()->free, before - kPageSize);
  EXPECT_TRUE((*second)->Release(handle).ok());
}

TEST_F(DriverDeviceTest, ThreadThatNeverUsedCudaMayCall) {
  absl::Status status;
  std::thread([&] {
    const absl::StatusOr<Event> event = device_->Record(Stream{});
    status = event.ok() ? device_->Synchronize(*event) : event.status();
  }).join();
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(DriverDeviceTest, NewPeerIsLetIntoWhatIsMappedAndWhatWillBe) {
  const Address first = MappedRange(2);
  const Address second = MappedRange(3);
  ASSERT_TRUE(device_->Unmap(first + kPageSize, kPageSize).ok());
  const uint64_t before = SIMULATED(frugal_sim_calls)("set_access");
  ASSERT_TRUE(device_->AllowPeer(1).ok());
  // One call for each range that is mapped without a gap; the two may lie side by side only with one between them.
  EXPECT_EQ(SIMULATED(frugal_sim_calls)("set_access"), before + 2);
  ASSERT_TRUE(device_->AllowPeer(1).ok());
  EXPECT_EQ(SIMULATED(frugal_sim_calls)("set_access"), before + 2);
  ASSERT_TRUE(device_->Unmap(first, kPageSize).ok());
  ASSERT_TRUE(device_->Unmap(second, kPageSize * 3).ok());
  MappedRange(1);
}

TEST_F(DriverDeviceTest, OneFailedCallKeepsNoPeerOut) {
  MappedRange(1);
  for (const char* plan : {"set_access@1=unknown", "context@1=unknown", "context@2=late_unknown"}) {
    SCOPED_TRACE(plan);
    ASSERT_EQ(SIMULATED(cudaSetDevice)(1), cudaSuccess);  // So that the device's context has to be set.
    FailNext(plan);
    EXPECT_TRUE(device_->AllowPeer(1).ok());
    EXPECT_EQ(SIMULATED(frugal_sim_faults)(), 1u);
    device_ = *DriverDevice::Open(0);
    MappedRange(1);
  }
}

TEST_F(DriverDeviceTest, OneFailedCallKeepsNoGpuFromBeingOpened) {
  for (const char* plan : {"context@1=unknown", "context@2=out_of_memory", "context@1=late_unknown"}) {
    SCOPED_TRACE(plan);
    FailNext(plan);
    const absl::StatusOr<std::unique_ptr<DriverDevice>> opened = DriverDevice::Open(1);
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_TRUE((*opened)->HasVirtualMemory());
    EXPECT_EQ(SIMULATED(frugal_sim_faults)(), 1u);
  }
  FailNext("context@1+=unknown");
  EXPECT_EQ(DriverDevice::Open(1).status().code(), absl::StatusCode::kInternal);
}

TEST_F(DriverDeviceTest, PeerThatIsRefusedIsTriedAgain) {
  MappedRange(1);
  FailNext("set_access@1+=invalid_device");
  EXPECT_EQ(device_->AllowPeer(1).code(), absl::StatusCode::kInternal);
  FailNext("");
  const uint64_t before = SIMULATED(frugal_sim_calls)("set_access");
  EXPECT_TRUE(device_->AllowPeer(1).ok());
  EXPECT_EQ(SIMULATED(frugal_sim_calls)("set_access"), before + 1);
}

}  // namespace
}  // namespace frugal
