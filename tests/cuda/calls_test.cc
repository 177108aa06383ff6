#include "cuda/simulated/calls.h"

#include <chrono>
#include <string>
#include <vector>

#include "cuda/simulated/fault_plan.h"
#include "cuda/simulated/latency_model.h"
#include "cuda/simulated/machine.h"
#include "gtest/gtest.h"

namespace frugal::sim {
namespace {

using std::chrono::microseconds;

Configuration ManualGpu() {
  Configuration configuration;
  configuration.memory = MiB(64);
  configuration.context = MiB(0);
  configuration.gpus = 2;
  configuration.backing = Backing::kMemory;  // Without it, nothing can be named for other processes.
  return configuration;
}

// One call of each kind that a plan can fail, on things that are there already.
class EveryCall {
 public:
  explicit EveryCall(Machine& machine) : machine_(machine) {
    machine.clock().Set(Nanoseconds(0));
    Must(machine.virtual_memory().Reserve(kPageSize * 2, kPageSize, Address(), &range_));
    Must(machine.virtual_memory().Create(0, kPageSize, &handle_));
    Must(machine.virtual_memory().Create(0, kPageSize, &spare_));
    Must(machine.virtual_memory().Map(range_, kPageSize, handle_));
    Must(machine.segments().Malloc(0, kPageSize, Segments::Kind::kDevice, &segment_));
    Must(machine.virtual_memory().Reserve(kPageSize, kPageSize, Address(), &empty_range_));
    stream_ = machine.streams().Create(0, Stream::Kind::kNonBlocking, 0);
    event_ = machine.streams().events().Create();
  }

  Error Make(CallKind kind) {
    VirtualMemory& memory = machine_.virtual_memory();
    Address start;
    VirtualMemory::HandleId handle = 0;
    switch (kind) {
      case CallKind::kCreate:
        return memory.Create(0, kPageSize, &handle);
      case CallKind::kMap:
        return memory.Map(range_ + kPageSize, kPageSize, handle_);
      case CallKind::kSetAccess:
        return memory.SetAccess(range_, kPageSize, {{0, VirtualMemory::Access::kReadWrite}});
      case CallKind::kUnmap:
        return memory.Unmap(range_, kPageSize);
      case CallKind::kRelease:
        return memory.Release(spare_);
      case CallKind::kReserve:
        return memory.Reserve(kPageSize, kPageSize, Address(), &start);
      case CallKind::kUnreserve:
        return memory.Unreserve(empty_range_, kPageSize);
      case CallKind::kMalloc:
        return machine_.segments().Malloc(0, MiB(4), Segments::Kind::kDevice, &start);
      case CallKind::kFree:
        return machine_.FreeSegment(segment_);
      case CallKind::kMemoryInfo: {
        Bytes free;
        Bytes total;
        return machine_.GetMemoryInfo(0, &free, &total);
      }
      case CallKind::kIpc: {
        SharedRange shared;
        return machine_.segments().Export(segment_, &shared);
      }
      case CallKind::kPeerAccess:
        return machine_.segments().EnablePeer(1, 0);
      default:
        return MakeOfStreams(kind);
    }
  }

 private:
  static void Must(Error error) { ASSERT_EQ(error, Error::kSuccess); }

  Error MakeOfStreams(CallKind kind) {
    Streams& streams = machine_.streams();
    switch (kind) {
      case CallKind::kSync:
        return streams.events().Synchronize(event_);
      case CallKind::kEventRecord:
        return streams.events().Record(event_, *stream_);
      case CallKind::kEventQuery:
        return streams.events().Query(event_);
      case CallKind::kStreamWait:
        return streams.events().StreamWait(*stream_, event_);
      case CallKind::kLaunch:
        return streams.Launch(*stream_, {});
      case CallKind::kEventCreate: {
        Event* event = nullptr;
        return streams.events().Create(&event);
      }
      case CallKind::kCaptureQuery: {
        Captures::Info info;
        return streams.captures().Query(*stream_, &info);
      }
      default:
        return Error::kUnknown;
    }
  }

  Machine& machine_;
  Address range_;
  Address empty_range_;
  Address segment_;
  VirtualMemory::HandleId handle_ = 0;
  VirtualMemory::HandleId spare_ = 0;
  Stream* stream_ = nullptr;
  Event* event_ = nullptr;
};

class CallKindTest : public ::testing::TestWithParam<CallKind> {
 protected:
  static std::string NameOf(CallKind kind) { return std::string(kCallKindNames[static_cast<size_t>(kind)]); }
};

TEST_P(CallKindTest, PlannedFaultFailsTheCallOnceAndChangesNothing) {
  Machine machine(ManualGpu());
  EveryCall call(machine);
  machine.calls().SetFaults(*FaultPlan::Parse(NameOf(GetParam()) + "@1=launch_failed"));
  const Bytes used = machine.gpu(0).memory().used();
  EXPECT_EQ(call.Make(GetParam()), Error::kLaunchFailed);
  EXPECT_EQ(machine.gpu(0).memory().used(), used);
  EXPECT_EQ(call.Make(GetParam()), Error::kSuccess);
}

TEST_P(CallKindTest, LateFaultLetsTheCallBeMadeAndFailsTheNextOfAnyKind) {
  constexpr CallKind kNext = CallKind::kMemoryInfo;
  Machine machine(ManualGpu());
  EveryCall call(machine);
  machine.calls().SetFaults(*FaultPlan::Parse(NameOf(GetParam()) + "@1=late_launch_failed"));
  EXPECT_EQ(call.Make(GetParam()), Error::kSuccess);
  EXPECT_EQ(machine.calls().faults(), 0u);
  EXPECT_EQ(call.Make(kNext), Error::kLaunchFailed);
  EXPECT_EQ(machine.calls().faults(), 1u);
  EXPECT_EQ(call.Make(kNext), Error::kSuccess);
}

TEST_P(CallKindTest, IsCountedUnderItsNameOnly) {
  Machine machine(ManualGpu());
  EveryCall call(machine);
  machine.calls().ResetCounters();
  ASSERT_EQ(call.Make(GetParam()), Error::kSuccess);
  for (size_t kind = 0; kind < kCallKindNames.size(); ++kind) {
    const bool made = static_cast<CallKind>(kind) == GetParam();
    EXPECT_EQ(machine.calls().count(static_cast<CallKind>(kind)), made ? 1u : 0u) << kCallKindNames[kind];
  }
  EXPECT_EQ(CallKindFromName(NameOf(GetParam())), GetParam());
}

TEST_P(CallKindTest, CostsWhatTheModelSays) {
  const std::vector<Nanoseconds> costs = {microseconds(29),  microseconds(2), microseconds(37), microseconds(30),
                                          microseconds(23),  microseconds(5), microseconds(5),  microseconds(108),
                                          microseconds(200), microseconds(0), microseconds(1),  Nanoseconds(500),
                                          microseconds(1),   microseconds(0), microseconds(8),  microseconds(0),
                                          microseconds(0),   microseconds(0), microseconds(0),  microseconds(37)};
  Machine machine(ManualGpu());
  EveryCall call(machine);
  machine.calls().ResetCounters();
  ASSERT_EQ(call.Make(GetParam()), Error::kSuccess);
  EXPECT_EQ(machine.calls().driver_time(), costs[static_cast<size_t>(GetParam())]);
}

INSTANTIATE_TEST_SUITE_P(All, CallKindTest,
                         ::testing::Values(CallKind::kCreate, CallKind::kMap, CallKind::kSetAccess, CallKind::kUnmap,
                                           CallKind::kRelease, CallKind::kReserve, CallKind::kUnreserve,
                                           CallKind::kMalloc, CallKind::kFree, CallKind::kSync, CallKind::kEventRecord,
                                           CallKind::kEventQuery, CallKind::kStreamWait, CallKind::kLaunch,
                                           CallKind::kMemoryInfo, CallKind::kEventCreate, CallKind::kCaptureQuery,
                                           CallKind::kIpc, CallKind::kPeerAccess),
                         [](const auto& info) { return std::string(kCallKindNames[static_cast<size_t>(info.param)]); });

TEST(FaultPlanTest, CountsFromTheMomentThatItIsSet) {
  Calls calls;
  EXPECT_EQ(calls.Begin(CallKind::kMap, LatencyModel::Uncharged()), Error::kSuccess);
  calls.SetFaults(*FaultPlan::Parse("map@2=invalid_value"));
  EXPECT_EQ(calls.Begin(CallKind::kMap, LatencyModel::Uncharged()), Error::kSuccess);
  EXPECT_EQ(calls.Begin(CallKind::kMap, LatencyModel::Uncharged()), Error::kInvalidValue);
  EXPECT_EQ(calls.Begin(CallKind::kMap, LatencyModel::Uncharged()), Error::kSuccess);
}

TEST(FaultPlanTest, PlusMeansAllAfter) {
  FaultPlan plan = *FaultPlan::Parse("create@2+=out_of_memory");
  EXPECT_EQ(plan.Next(CallKind::kCreate), Error::kSuccess);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(plan.Next(CallKind::kCreate), Error::kOutOfMemory);
}

TEST(FaultPlanTest, LatePlusFailsEverySecondCall) {
  FaultPlan plan = *FaultPlan::Parse("create@1+=late_unknown");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(plan.Next(CallKind::kCreate), Error::kSuccess);
    EXPECT_EQ(plan.Next(CallKind::kCreate), Error::kUnknown) << "not made, so it causes none of its own";
  }
  EXPECT_EQ(plan.faults(), 3u);
}

TEST(FaultPlanTest, OfTheDriverNoCallOfTheRuntimeCountsOrFails) {
  FaultPlan plan = *FaultPlan::Parse("driver.map@2=unknown,driver.create@1=late_invalid_value");
  EXPECT_EQ(plan.Next(CallKind::kMap, /*in_driver=*/true), Error::kSuccess);
  EXPECT_EQ(plan.Next(CallKind::kMap), Error::kSuccess);
  EXPECT_EQ(plan.Next(CallKind::kMap, /*in_driver=*/true), Error::kUnknown);
  EXPECT_EQ(plan.Next(CallKind::kCreate, /*in_driver=*/true), Error::kSuccess);
  EXPECT_EQ(plan.Next(CallKind::kMap), Error::kSuccess);
  EXPECT_EQ(plan.Next(CallKind::kUnmap, /*in_driver=*/true), Error::kInvalidValue);
  EXPECT_EQ(plan.Next(CallKind::kUnmap, /*in_driver=*/true), Error::kSuccess);
  EXPECT_EQ(plan.faults(), 2u);
}

TEST(FaultPlanTest, PartialIsToldToWhoAsks) {
  FaultPlan plan = *FaultPlan::Parse("unmap@1=partial_unknown,unmap@2=unknown");
  bool partial = false;
  EXPECT_EQ(plan.Next(CallKind::kUnmap, false, &partial), Error::kUnknown);
  EXPECT_TRUE(partial);
  EXPECT_EQ(plan.Next(CallKind::kUnmap, false, &partial), Error::kUnknown);
  EXPECT_FALSE(partial);
}

TEST(FaultPlanTest, SeveralRulesAndTheEmptyPlanAreUnderstood) {
  FaultPlan plan = *FaultPlan::Parse("create@1=out_of_memory,map@1=already_mapped");
  EXPECT_EQ(plan.Next(CallKind::kMap), Error::kAlreadyMapped);
  EXPECT_EQ(plan.Next(CallKind::kCreate), Error::kOutOfMemory);
  EXPECT_EQ(FaultPlan::Parse("")->Next(CallKind::kCreate), Error::kSuccess);
}

TEST(FaultPlanTest, WhatIsNotAPlanIsRefused) {
  for (const char* text : {"create",
                           "create@1",
                           "create@x=out_of_memory",
                           "create@0=out_of_memory",
                           "create@-1=out_of_memory",
                           "make@1=out_of_memory",
                           "driver.@1=unknown",
                           "driver.make@1=unknown",
                           "create@1=no_such_error",
                           "create@1=success",
                           "create@1=late_success",
                           "create@1=late_",
                           "create@1=latest_unknown",
                           "create=out_of_memory@1",
                           ",",
                           "unmap_while_busy@1=unknown",
                           "map@1=partial_unknown",
                           "unmap@1=partial_",
                           "unmap@1=late_partial_unknown",
                           "unmap@1=partial_late_unknown"}) {
    EXPECT_FALSE(FaultPlan::Parse(text).has_value()) << text;
  }
}

TEST(LatencyModelTest, CreateGrowsWithTheSizeAndUnmapWithTheHandles) {
  constexpr DriverCosts kTable;
  EXPECT_EQ(LatencyModel::Create(MiB(20)).In(kTable), microseconds(65));
  EXPECT_EQ(LatencyModel::SetAccess(4).In(kTable), microseconds(148));
  EXPECT_EQ(LatencyModel::Unmap(4).In(kTable), microseconds(120));
  EXPECT_EQ(LatencyModel::Malloc(KiB(512)).In(kTable), microseconds(101));
  EXPECT_EQ(LatencyModel::Uncharged().In(kTable), microseconds(0));
}

}  // namespace
}  // namespace frugal::sim
