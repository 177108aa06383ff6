#include "cuda/driver_device.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "cuda/driver_api.h"
#include "cuda/pointer_access.h"
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
      const PhysicalHandle handle = *device_->Create(kPageSize);
      EXPECT_TRUE(device_->Map(range + kPageSize * i, kPageSize, handle).ok());
      EXPECT_TRUE(device_->Release(handle).ok());
    }
    EXPECT_TRUE(device_->SetAccess(range, size).ok());
    return range;
  }

  std::unique_ptr<DriverDevice> device_;
};

TEST_F(DriverDeviceTest, MemoryThatCannotBeMappedIsNotReliedOnAndThatIsSaid) {
  const uint64_t used = SIMULATED(frugal_sim_memory_used)(0);
  for (const char* call : {"create", "map", "set_access"}) {
    FailNext(std::string(call) + "@1+=not_supported");
    const std::unique_ptr<DriverDevice> device = *DriverDevice::Open(0);
    EXPECT_FALSE(device->HasVirtualMemory()) << call;
    EXPECT_TRUE(absl::StrContains(device->broken_promise(), "CUDA_ERROR_NOT_SUPPORTED")) << device->broken_promise();
    EXPECT_TRUE(absl::StrContains(device->broken_promise(), "whole segments")) << device->broken_promise();
    FailNext("");
    EXPECT_EQ(SIMULATED(frugal_sim_memory_used)(0), used) << call;
  }
  const std::unique_ptr<DriverDevice> device = *DriverDevice::Open(0);
  EXPECT_TRUE(device->HasVirtualMemory());
  EXPECT_EQ(device->broken_promise(), "");
  EXPECT_EQ(SIMULATED(frugal_sim_memory_used)(0), used);
}

TEST_F(DriverDeviceTest, MemoryThatCannotBeUnmappedIsNotReliedOn) {
  FailNext("unmap@1+=unmap_failed");
  EXPECT_FALSE((*DriverDevice::Open(0))->HasVirtualMemory());
}

TEST_F(DriverDeviceTest, MemoryIsAskedForInAnotherWayBeforeItIsGivenUp) {
  FailNext("set_access@1=not_supported,set_access@2=not_supported");
  const std::unique_ptr<DriverDevice> device = *DriverDevice::Open(0);
  EXPECT_TRUE(device->HasVirtualMemory());
  EXPECT_TRUE(absl::StrContains(device->broken_promise(), "does without")) << device->broken_promise();
}

TEST_F(DriverDeviceTest, OneFailedCallLosesNothingOfTheMemory) {
  for (const char* call : {"reserve", "create", "map", "set_access", "release", "unreserve"}) {
    FailNext(std::string(call) + "@1=unknown");
    const std::unique_ptr<DriverDevice> device = *DriverDevice::Open(0);
    EXPECT_TRUE(device->HasVirtualMemory()) << call;
    EXPECT_EQ(device->broken_promise(), "") << call;
    EXPECT_EQ(SIMULATED(frugal_sim_faults)(), 1u) << call;
  }
}

TEST_F(DriverDeviceTest, AFullDeviceSaysNothingAboutItsMemory) {
  FailNext("create@1+=out_of_memory");
  EXPECT_TRUE((*DriverDevice::Open(0))->HasVirtualMemory());
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
  const PhysicalHandle handle = *device_->Create(kPageSize);
  EXPECT_EQ(device_->GetMemoryInfo()->free, before - kPageSize);
  ASSERT_TRUE(device_->Release(handle).ok());
  EXPECT_EQ(device_->GetMemoryInfo()->free, before);
}

TEST_F(DriverDeviceTest, MappedMemoryCanBeWrittenAndIsOneThroughBothItsViews) {
  const Address range = *device_->Reserve(kPageSize * 2);
  const PhysicalHandle handle = *device_->Create(kPageSize);
  ASSERT_TRUE(device_->Map(range, kPageSize, handle).ok());
  ASSERT_TRUE(device_->Map(range + kPageSize, kPageSize, handle).ok());
  ASSERT_TRUE(device_->SetAccess(range, kPageSize * 2).ok());
  static_cast<char*>(range.pointer())[5] = 'x';
  EXPECT_EQ(static_cast<char*>((range + kPageSize).pointer())[5], 'x');
  EXPECT_TRUE(device_->Unmap(range, kPageSize * 2).ok());
  EXPECT_TRUE(device_->Release(handle).ok());
  EXPECT_TRUE(device_->Unreserve(range, kPageSize * 2).ok());
}

// --- Handles of several sizes.

TEST_F(DriverDeviceTest, HandleOfAnySizeTakesThatMuchMemoryAndOneCallOfEachKind) {
  const Bytes before = device_->GetMemoryInfo()->free;
  const auto calls = [this](DriverCall call) { return device_->times().Of(call).calls; };
  int64_t count = 0;
  for (const int64_t pages : {1, 2, 32}) {
    SCOPED_TRACE(pages);
    const Bytes size = kPageSize * pages;
    const Address range = *device_->Reserve(size);
    const PhysicalHandle handle = *device_->Create(size);
    ASSERT_TRUE(device_->Map(range, size, handle).ok());
    ASSERT_TRUE(device_->SetAccess(range, size).ok());
    EXPECT_EQ(device_->GetMemoryInfo()->free, before - size);
    EXPECT_EQ(calls(DriverCall::create), ++count);
    EXPECT_EQ(calls(DriverCall::map), count);
    static_cast<char*>((range + size).pointer())[-1] = 'x';
    ASSERT_TRUE(device_->Unmap(range, size).ok());
    ASSERT_TRUE(device_->Release(handle).ok());
    ASSERT_TRUE(device_->Unreserve(range, size).ok());
    EXPECT_EQ(device_->GetMemoryInfo()->free, before);
  }
}

TEST_F(DriverDeviceTest, HandlesOfSeveralSizesSideBySideAreOneRange) {
  // Of 4, 1 and 2 pages, and the first of them once more behind.
  const Address range = *device_->Reserve(kPageSize * 11);
  const PhysicalHandle large = *device_->Create(kPageSize * 4);
  const PhysicalHandle small = *device_->Create(kPageSize);
  const PhysicalHandle middle = *device_->Create(kPageSize * 2);
  ASSERT_TRUE(device_->Map(range, kPageSize * 4, large).ok());
  ASSERT_TRUE(device_->Map(range + kPageSize * 4, kPageSize, small).ok());
  ASSERT_TRUE(device_->Map(range + kPageSize * 5, kPageSize * 2, middle).ok());
  ASSERT_TRUE(device_->Map(range + kPageSize * 7, kPageSize * 4, large).ok());
  ASSERT_TRUE(device_->SetAccess(range, kPageSize * 11).ok());
  char* const bytes = static_cast<char*>(range.pointer());
  const int64_t page = kPageSize.count();
  bytes[page * 4 - 1] = 'l';
  bytes[page * 4] = 's';
  bytes[page * 7 - 1] = 'm';
  EXPECT_EQ(bytes[page * 11 - 1], 'l') << "the large handle's last byte";
  ASSERT_TRUE(device_->AllowPeer(1).ok());
  for (const int64_t at : {page * 4 - 1, page * 4, page * 7 - 1, page * 11 - 1}) {
    EXPECT_TRUE(*MayReach(1, range + Bytes(at))) << at;
  }
  EXPECT_FALSE(device_->Unmap(range, kPageSize * 2).ok()) << "half a handle";
  EXPECT_TRUE(device_->Unmap(range, kPageSize * 11).ok());
  for (const PhysicalHandle handle : {large, small, middle}) EXPECT_TRUE(device_->Release(handle).ok());
  EXPECT_TRUE(device_->Unreserve(range, kPageSize * 11).ok());
}

TEST_F(DriverDeviceTest, HandleThatIsLargerThanWhatIsFreeIsResourceExhaustedAndASmallerOneIsNot) {
  const Bytes free = device_->GetMemoryInfo()->free;
  std::vector<Address> segments;
  for (Bytes left = free; left > MiB(32); left -= MiB(32)) segments.push_back(*device_->Malloc(MiB(32)));
  EXPECT_EQ(device_->Create(MiB(64)).status().code(), absl::StatusCode::kResourceExhausted);
  const absl::StatusOr<PhysicalHandle> small = device_->Create(kPageSize);
  ASSERT_TRUE(small.ok()) << small.status();
  EXPECT_TRUE(device_->Release(*small).ok());
  for (const Address segment : segments) ASSERT_TRUE(device_->Free(segment).ok());
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
  const absl::Status status = device_->Create(kPageSize).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(absl::StrContains(status.message(), "CUDA_ERROR_OUT_OF_MEMORY")) << status;
}

TEST_F(DriverDeviceTest, AddressesThatRunOutAreNotMemoryThatRunsOut) {
  FailNext("reserve@1=out_of_memory");
  const absl::Status status = device_->Reserve(kPageSize).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_NE(status.message().find("cuMemAddressReserve"), std::string::npos) << status;
}

TEST_F(DriverDeviceTest, MappingThatFailsWhileMemoryIsFreeSaysWhatElseMayHaveRunOut) {
  const Address range = *device_->Reserve(kPageSize);
  const PhysicalHandle handle = *device_->Create(kPageSize);
  FailNext("map@1=out_of_memory");
  const absl::Status unmapped = device_->Map(range, kPageSize, handle);
  ASSERT_TRUE(device_->Map(range, kPageSize, handle).ok());
  FailNext("set_access@1=out_of_memory");
  const absl::Status inaccessible = device_->SetAccess(range, kPageSize);
  for (const absl::Status& status : {unmapped, inaccessible}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
    EXPECT_TRUE(absl::StrContains(status.message(), "CUDA_ERROR_OUT_OF_MEMORY")) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "iB of the GPU are free")) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "memory_limit")) << status;
  }
  // On a full device it is what it says.
  std::vector<Address> segments;
  for (;;) {
    const absl::StatusOr<Address> segment = device_->Malloc(MiB(2));
    if (!segment.ok()) break;
    segments.push_back(*segment);
  }
  FailNext("set_access@1=out_of_memory");
  EXPECT_EQ(device_->SetAccess(range, kPageSize).code(), absl::StatusCode::kResourceExhausted);
  for (const Address segment : segments) ASSERT_TRUE(device_->Free(segment).ok());
  ASSERT_TRUE(device_->Unmap(range, kPageSize).ok());
  ASSERT_TRUE(device_->Release(handle).ok());
}

TEST_F(DriverDeviceTest, OtherFailuresCarryTheCallAndTheDriversNameForThem) {
  const Address range = *device_->Reserve(kPageSize);
  const PhysicalHandle handle = *device_->Create(kPageSize);
  FailNext("map@1=invalid_value");
  const absl::Status status = device_->Map(range, kPageSize, handle);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(absl::StrContains(status.message(), "cuMemMap: CUDA_ERROR_INVALID_VALUE")) << status;
  ASSERT_TRUE(device_->Map(range, kPageSize, handle).ok());
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
  const PhysicalHandle handle = *(*second)->Create(kPageSize);
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

// --- Streams of other contexts.

TEST_F(DriverDeviceTest, EventOnAnotherGpusStreamIsOfThatGpu) {
  const std::unique_ptr<DriverDevice> other = *DriverDevice::Open(1);
  ASSERT_EQ(SIMULATED(cudaSetDevice)(1), cudaSuccess);
  Stream stream = NewStream();
  ASSERT_EQ(SIMULATED(cudaSetDevice)(0), cudaSuccess);
  stream.context = other->primary_context();
  const uint64_t until = Later();
  SIMULATED(frugal_sim_set_stream_busy_until)(Raw(stream), until);
  const absl::StatusOr<Event> event = device_->Record(stream);
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_FALSE(*device_->HasPassed(*event));
  EXPECT_TRUE(device_->StreamWait(NewStream(), *event).ok());
  EXPECT_TRUE(device_->Synchronize(*event).ok());
  EXPECT_TRUE(*device_->HasPassed(*event));
  device_->Recycle(*event);
  // Not one that this GPU's streams would be given.
  EXPECT_TRUE(device_->Record(NewStream()).ok());
}

TEST_F(DriverDeviceTest, DefaultStreamOfAnotherGpuIsNotThisOnes) {
  const std::unique_ptr<DriverDevice> other = *DriverDevice::Open(1);
  ASSERT_EQ(SIMULATED(cudaSetDevice)(1), cudaSuccess);
  SIMULATED(frugal_sim_set_stream_busy_until)(nullptr, Later());
  ASSERT_EQ(SIMULATED(cudaSetDevice)(0), cudaSuccess);
  const Event here = *device_->Record(Stream{});
  const Event there = *device_->Record(Stream{0, other->primary_context()});
  EXPECT_TRUE(*device_->HasPassed(here));
  EXPECT_FALSE(*device_->HasPassed(there));
  ASSERT_TRUE(device_->StreamWait(Stream{}, there).ok());
  EXPECT_FALSE(*device_->HasPassed(*device_->Record(Stream{})));
  ASSERT_TRUE(device_->Synchronize(there).ok());
}

// A part of GPU 0 with a null stream of its own.
class GreenContext {
 public:
  GreenContext() {
    CUdevResource resource = {};
    EXPECT_EQ(SIMULATED(cuDeviceGetDevResource)(0, &resource, CU_DEV_RESOURCE_TYPE_SM), CUDA_SUCCESS);
    CUdevResourceDesc description = nullptr;
    EXPECT_EQ(SIMULATED(cuDevResourceGenerateDesc)(&description, &resource, 1), CUDA_SUCCESS);
    EXPECT_EQ(SIMULATED(cuGreenCtxCreate)(&green_, description, 0, CU_GREEN_CTX_DEFAULT_STREAM), CUDA_SUCCESS);
    EXPECT_EQ(SIMULATED(cuCtxFromGreenCtx)(&context_, green_), CUDA_SUCCESS);
  }
  ~GreenContext() { EXPECT_EQ(SIMULATED(cuGreenCtxDestroy)(green_), CUDA_SUCCESS); }

  uint64_t context() const { return reinterpret_cast<uint64_t>(context_); }
  void Push() const { EXPECT_EQ((*DriverApi::Get())->CtxPushCurrent(context_), CUDA_SUCCESS); }
  static void Pop() {
    CUcontext popped;
    EXPECT_EQ((*DriverApi::Get())->CtxPopCurrent(&popped), CUDA_SUCCESS);
  }

 private:
  CUgreenCtx green_ = nullptr;
  CUcontext context_ = nullptr;
};

TEST_F(DriverDeviceTest, ContextOfTheThreadIsToldApartFromThePrimaryOne) {
  const GreenContext green;
  ASSERT_EQ(SIMULATED(cudaSetDevice)(0), cudaSuccess);
  EXPECT_EQ(device_->CurrentContext(), 0u);
  green.Push();
  EXPECT_EQ(device_->CurrentContext(), green.context());
  green.Pop();
  EXPECT_EQ(device_->CurrentContext(), 0u);
  std::thread([&] { EXPECT_EQ(device_->CurrentContext(), 0u); }).join();
}

TEST_F(DriverDeviceTest, NullStreamOfAGreenContextIsAnotherThanTheDevices) {
  const GreenContext green;
  green.Push();
  SIMULATED(frugal_sim_set_stream_busy_until)(nullptr, Later());
  green.Pop();
  const Stream inside{0, green.context(), true};
  const Event there = *device_->Record(inside);
  EXPECT_FALSE(*device_->HasPassed(there));
  EXPECT_TRUE(*device_->HasPassed(*device_->Record(Stream{})));
  // Also while the green context is the thread's.
  green.Push();
  EXPECT_FALSE(*device_->HasPassed(*device_->Record(inside)));
  EXPECT_TRUE(*device_->HasPassed(*device_->Record(Stream{})));
  ASSERT_TRUE(device_->StreamWait(Stream{}, there).ok());
  EXPECT_EQ(device_->CurrentContext(), green.context());
  green.Pop();
  EXPECT_FALSE(*device_->HasPassed(*device_->Record(Stream{})));
}

TEST_F(DriverDeviceTest, WaitForAllCoversGreenContextsWhicheverContextIsTheThreads) {
  const GreenContext green;
  for (const bool from_inside : {false, true}) {
    green.Push();
    SIMULATED(frugal_sim_set_stream_busy_until)(nullptr, Later());
    if (!from_inside) green.Pop();
    const Event there = *device_->Record(Stream{0, green.context()});
    EXPECT_FALSE(*device_->HasPassed(there));
    const Stream outside = NewStream();
    SIMULATED(frugal_sim_set_stream_busy_until)(Raw(outside), Later());
    const Event elsewhere = *device_->Record(outside);
    ASSERT_TRUE(device_->SynchronizeAll().ok());
    EXPECT_TRUE(*device_->HasPassed(there));
    EXPECT_TRUE(*device_->HasPassed(elsewhere));
    if (from_inside) green.Pop();
    device_->Recycle(there);
  }
}

TEST_F(DriverDeviceTest, PerThreadStreamOfWhicheverThreadIsWaitedFor) {
  const Stream per_thread{reinterpret_cast<uint64_t>(CU_STREAM_PER_THREAD)};
  std::thread([] {
    ASSERT_EQ(SIMULATED(cudaSetDevice)(0), cudaSuccess);
    SIMULATED(frugal_sim_set_stream_busy_until)(cudaStreamPerThread, Later());
  }).join();
  const Event event = *device_->Record(per_thread);
  EXPECT_FALSE(*device_->HasPassed(event));
  ASSERT_TRUE(device_->Synchronize(event).ok());
  EXPECT_TRUE(*device_->HasPassed(event));
}

TEST_F(DriverDeviceTest, WhetherAPeerMayReachMemoryIsAskedWithoutChangingIt) {
  ASSERT_EQ(SIMULATED(cudaSetDevice)(0), cudaSuccess);
  const Address segment = *device_->Malloc(MiB(2));
  EXPECT_TRUE(*MayReach(0, segment));
  for (int time = 0; time < 2; ++time) EXPECT_FALSE(*MayReach(1, segment));
  ASSERT_EQ(SIMULATED(cudaSetDevice)(1), cudaSuccess);
  ASSERT_EQ(SIMULATED(cudaDeviceEnablePeerAccess)(0, 0), cudaSuccess);
  ASSERT_EQ(SIMULATED(cudaSetDevice)(0), cudaSuccess);
  for (int time = 0; time < 2; ++time) EXPECT_TRUE(*MayReach(1, segment));
  int current = -1;
  EXPECT_EQ(SIMULATED(cudaGetDevice)(&current), cudaSuccess);
  EXPECT_EQ(current, 0);
  ASSERT_TRUE(device_->Free(segment).ok());
  EXPECT_FALSE(MayReach(0, Address(8)).ok());
  EXPECT_FALSE(MayReach(99, segment).ok());
}

TEST_F(DriverDeviceTest, EveryCallIsCountedWithItsTimeAndWhatOpeningTookIsNot) {
  const auto calls = [this](DriverCall call) { return device_->times().Of(call).calls; };
  for (size_t kind = 0; kind < kDriverCallNames.size(); ++kind) EXPECT_EQ(calls(static_cast<DriverCall>(kind)), 0);
  const Address range = MappedRange(3);
  ASSERT_TRUE(device_->Unmap(range, kPageSize * 3).ok());
  ASSERT_TRUE(device_->Unreserve(range, kPageSize * 3).ok());
  ASSERT_TRUE(device_->Free(*device_->Malloc(MiB(4))).ok());
  ASSERT_TRUE(device_->GetMemoryInfo().ok());
  const Event event = *device_->Record(NewStream());
  ASSERT_TRUE(device_->StreamWait(NewStream(), event).ok());
  ASSERT_TRUE(device_->Synchronize(event).ok());
  ASSERT_TRUE(device_->HasPassed(event).ok());
  ASSERT_TRUE(device_->SynchronizeAll().ok());
  for (size_t kind = 0; kind < kDriverCallNames.size(); ++kind) {
    const auto call = static_cast<DriverCall>(kind);
    const bool for_each_page = call == DriverCall::create || call == DriverCall::map || call == DriverCall::release;
    EXPECT_EQ(calls(call), for_each_page ? 3 : call == DriverCall::sync ? 2 : 1) << kDriverCallNames[kind];
  }
}

TEST_F(DriverDeviceTest, FailedCallIsCountedToo) {
  FailNext("create@1=out_of_memory");
  EXPECT_FALSE(device_->Create(kPageSize).ok());
  EXPECT_EQ(device_->times().Of(DriverCall::create).calls, 1);
}

TEST(DriverTimesTest, TotalIsTheSumAndWorstTheLongest) {
  DriverTimes times;
  for (const int64_t nanoseconds : {30, 500, 7}) times.Note(DriverCall::map, nanoseconds);
  times.Note(DriverCall::unmap, 1);
  EXPECT_EQ(times.Of(DriverCall::map).calls, 3);
  EXPECT_EQ(times.Of(DriverCall::map).total, 537);
  EXPECT_EQ(times.Of(DriverCall::map).worst, 500);
  times.Forget();
  EXPECT_EQ(times.Of(DriverCall::map).calls, 0);
  EXPECT_EQ(times.Of(DriverCall::unmap).worst, 0);
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
