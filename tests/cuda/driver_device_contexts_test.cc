// Of DriverDevice: streams of other contexts than the device's primary one, and of whichever thread.

#include <memory>
#include <thread>

#include "absl/status/statusor.h"
#include "cuda/driver_api.h"
#include "cuda/driver_device.h"
#include "gtest/gtest.h"
#include "tests/cuda/driver_device_fixture.h"

namespace frugal {
namespace {

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

}  // namespace
}  // namespace frugal
