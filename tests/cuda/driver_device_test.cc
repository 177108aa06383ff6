#include "cuda/driver_device.h"

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "cuda/driver_api.h"
#include "cuda/pointer_access.h"
#include "gtest/gtest.h"
#include "tests/cuda/driver_device_fixture.h"

namespace frugal {
namespace {

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

TEST_F(DriverDeviceTest, AnUnansweredQuestionAboutACaptureIsToldApartFromOtherFailures) {
  const std::unique_ptr<DriverDevice> device = *DriverDevice::Open(0);
  FailNext("capture_query@1=invalid_value");
  EXPECT_TRUE(absl::IsUnknown(device->Record(Stream{}).status()));
  FailNext("event_record@1=invalid_value");
  const absl::Status status = device->Record(Stream{}).status();
  EXPECT_TRUE(absl::IsInternal(status)) << status;
}

decltype(DriverApi::EventRecord) record_event;

TEST_F(DriverDeviceTest, AnEventOfACaptureThatBeganMeanwhileIsNotAsked) {
  const Stream stream = NewStream();
  auto& api = const_cast<DriverApi&>(**DriverApi::Get());
  record_event = std::exchange(api.EventRecord, [](CUevent event, CUstream recorded) {
    EXPECT_EQ(SIMULATED(cudaStreamBeginCapture)(recorded, cudaStreamCaptureModeRelaxed), cudaSuccess);
    return record_event(event, recorded);
  });
  const absl::Status status = device_->Record(stream).status();
  api.EventRecord = record_event;
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(SIMULATED(cudaStreamEndCapture)(Raw(stream), &graph), cudaSuccess);
  const absl::StatusOr<Event> event = device_->Record(stream);
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_TRUE(*device_->HasPassed(*event));
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

TEST_F(DriverDeviceTest, NewPeerIsLetIntoRangesThatLieSideBySideOneByOne) {
  // The simulated driver refuses a call that reaches from one reservation into the next.
  const Bytes size = kPageSize * 2;
  const Address both = *device_->Reserve(size * 2);
  ASSERT_TRUE(device_->Unreserve(both, size * 2).ok());
  const Address first = MappedRange(2);
  const Address second = MappedRange(2);
  ASSERT_TRUE(first + size == second || second + size == first) << first.value() << " " << second.value();
  EXPECT_TRUE(device_->AllowPeer(1).ok());
  for (const Address range : {first, second}) {
    EXPECT_TRUE(*MayReach(1, range + kPageSize));
    ASSERT_TRUE(device_->Unmap(range, size).ok());
    ASSERT_TRUE(device_->Unreserve(range, size).ok());
  }
}

TEST_F(DriverDeviceTest, EventOfAnotherContextGoesWithAContextThoughTheThreadHasNone) {
  // The simulated driver, as the manual has it, destroys no event for a thread without one.
  ASSERT_EQ(SIMULATED(cudaSetDevice)(1), cudaSuccess);
  CUcontext other = nullptr;
  ASSERT_EQ(SIMULATED(cuCtxGetCurrent)(&other), CUDA_SUCCESS);
  const Event event = *device_->Record(Stream{0, reinterpret_cast<uint64_t>(other)});
  ASSERT_EQ(SIMULATED(cudaSetDevice)(0), cudaSuccess);
  std::thread([&] { device_->Recycle(event); }).join();
  ASSERT_EQ(SIMULATED(cudaSetDevice)(0), cudaSuccess);
  EXPECT_EQ(SIMULATED(cudaEventQuery)(reinterpret_cast<cudaEvent_t>(event.id)), cudaErrorInvalidResourceHandle)
      << "it is still there";
}

TEST_F(DriverDeviceTest, MemoryThatCannotBeSeenAtTwoAddressesOrInLargePiecesIsNotReliedOn) {
  for (const char* plan : {"map@2+=not_supported", "create@2+=invalid_value"}) {
    SCOPED_TRACE(plan);
    FailNext(plan);
    const std::unique_ptr<DriverDevice> device = *DriverDevice::Open(0);
    EXPECT_FALSE(device->HasVirtualMemory());
    EXPECT_NE(device->broken_promise(), "");
    FailNext("");
  }
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

class StreamsThatMayEnd : public DriverDeviceTest {
 protected:
  // Streams are made on the thread's device.
  StreamsThatMayEnd() { EXPECT_EQ(SIMULATED(cudaSetDevice)(0), cudaSuccess); }

  // The stream, destroyed and followed by one with its handle.
  Stream Follow(Stream stream) {
    EXPECT_EQ(SIMULATED(cudaStreamDestroy)(Raw(stream)), cudaSuccess);
    const Stream next = NewStream();
    EXPECT_EQ(next.id, stream.id) << "a driver uses handles again";
    return device_->WithLife(next);
  }
};

TEST_F(StreamsThatMayEnd, AStreamIsTheSameEachTimeItIsNamed) {
  const Stream stream = device_->WithLife(NewStream());
  EXPECT_FALSE(stream.lasts());
  EXPECT_EQ(device_->WithLife(stream), stream);
  EXPECT_EQ(device_->Record(stream).status(), absl::OkStatus());
}

TEST_F(StreamsThatMayEnd, TheNextStreamWithItsHandleIsAnother) {
  const Stream stream = device_->WithLife(NewStream());
  const Stream next = Follow(stream);
  EXPECT_NE(next, stream);
  EXPECT_TRUE(absl::IsNotFound(device_->Record(stream).status()));
  EXPECT_TRUE(device_->Record(next).ok());
}

TEST_F(StreamsThatMayEnd, AHandleThatNamesAnotherStreamIsNotMarkedThoughNobodyNamedThat) {
  const Stream stream = device_->WithLife(NewStream());
  ASSERT_EQ(SIMULATED(cudaStreamDestroy)(Raw(stream)), cudaSuccess);
  ASSERT_EQ(NewStream().id, stream.id);
  EXPECT_TRUE(absl::IsNotFound(device_->Record(stream).status()));
}

}  // namespace
}  // namespace frugal
