#include "simulated_gpu/machine/calls.h"

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "simulated_gpu/machine/fault_plan.h"
#include "simulated_gpu/tests/simulated_machine.h"

namespace frugal::sim {
namespace {

using std::chrono::microseconds;

// One call of each kind that a plan can fail, on things that are there already.
class CallKindTest : public SimulatedMachine, public testing::WithParamInterface<CallKind> {
 protected:
  CallKindTest() : SimulatedMachine({.memory = MiB(64), .context = MiB(0), .gpus = 2}) {
    EXPECT_EQ(memory_.Map(range_, kPage, handle_), Error::kSuccess);
    calls().ResetCounters();
  }

  static std::string NameOf(CallKind kind) { return std::string(kCallKindNames[static_cast<size_t>(kind)]); }
  Calls& calls() { return machine_.calls(); }
  Error Make(CallKind kind) { return make_.at(kind)(); }

  const Address range_ = Reserve(kPage * 2);
  const Address empty_range_ = Reserve(kPage);
  const Address segment_ = Malloc(kPage);
  const HandleId handle_ = Create();
  const HandleId spare_ = Create();
  Stream& stream_ = NewStream();
  Event* event_ = streams_.events().Create();

 private:
  // What the calls give.
  Address start_;
  HandleId id_ = 0;
  Event* made_ = nullptr;
  Bytes free_;
  Bytes total_;
  SharedRange shared_;
  Captures::Info info_;
  const std::map<CallKind, std::function<Error()>> make_ = {
      {CallKind::kCreate, [this] { return memory_.Create(0, kPage, &id_); }},
      {CallKind::kMap, [this] { return memory_.Map(range_ + kPage, kPage, handle_); }},
      {CallKind::kSetAccess,
       [this] {
         return memory_.SetAccess(range_, kPage, {{0, Access::kReadWrite}});
       }},
      {CallKind::kUnmap, [this] { return memory_.Unmap(range_, kPage); }},
      {CallKind::kRelease, [this] { return memory_.Release(spare_); }},
      {CallKind::kReserve, [this] { return memory_.Reserve(kPage, kPage, Address(), &start_); }},
      {CallKind::kUnreserve, [this] { return memory_.Unreserve(empty_range_, kPage); }},
      {CallKind::kMalloc, [this] { return TryMalloc(MiB(4), &start_); }},
      {CallKind::kFree, [this] { return machine_.FreeSegment(segment_); }},
      {CallKind::kSync, [this] { return streams_.events().Synchronize(event_); }},
      {CallKind::kEventRecord, [this] { return streams_.events().Record(event_, stream_); }},
      {CallKind::kEventQuery, [this] { return streams_.events().Query(event_); }},
      {CallKind::kStreamWait, [this] { return streams_.events().StreamWait(stream_, event_); }},
      {CallKind::kLaunch, [this] { return streams_.Launch(stream_, {}); }},
      {CallKind::kMemoryInfo, [this] { return machine_.GetMemoryInfo(0, &free_, &total_); }},
      {CallKind::kEventCreate, [this] { return streams_.events().Create(&made_); }},
      {CallKind::kCaptureQuery, [this] { return streams_.captures().Query(stream_, &info_); }},
      {CallKind::kIpc, [this] { return machine_.segments().Export(segment_, &shared_); }},
      {CallKind::kPeerAccess, [this] { return machine_.segments().EnablePeer(1, 0); }},
  };
};

TEST_P(CallKindTest, PlannedFaultFailsTheCallOnceAndChangesNothing) {
  calls().SetFaults(*FaultPlan::Parse(NameOf(GetParam()) + "@1=launch_failed"));
  const Bytes before = used();
  EXPECT_EQ(Make(GetParam()), Error::kLaunchFailed);
  EXPECT_EQ(used(), before);
  EXPECT_EQ(Make(GetParam()), Error::kSuccess);
}

TEST_P(CallKindTest, LateFaultLetsTheCallBeMadeAndFailsTheNextOfAnyKind) {
  constexpr CallKind kNext = CallKind::kMemoryInfo;
  calls().SetFaults(*FaultPlan::Parse(NameOf(GetParam()) + "@1=late_launch_failed"));
  EXPECT_EQ(Make(GetParam()), Error::kSuccess);
  EXPECT_EQ(calls().faults(), 0u);
  EXPECT_EQ(Make(kNext), Error::kLaunchFailed);
  EXPECT_EQ(calls().faults(), 1u);
  EXPECT_EQ(Make(kNext), Error::kSuccess);
}

TEST_P(CallKindTest, IsCountedUnderItsNameOnly) {
  ASSERT_EQ(Make(GetParam()), Error::kSuccess);
  for (size_t kind = 0; kind < kCallKindNames.size(); ++kind) {
    const bool made = static_cast<CallKind>(kind) == GetParam();
    EXPECT_EQ(calls().count(static_cast<CallKind>(kind)), made ? 1u : 0u) << kCallKindNames[kind];
  }
  EXPECT_EQ(CallKindFromName(NameOf(GetParam())), GetParam());
}

TEST_P(CallKindTest, CostsWhatTheModelSays) {
  const std::vector<Nanoseconds> costs = {microseconds(29),  microseconds(2), microseconds(37), microseconds(30),
                                          microseconds(23),  microseconds(5), microseconds(5),  microseconds(108),
                                          microseconds(200), microseconds(0), microseconds(1),  Nanoseconds(500),
                                          microseconds(1),   microseconds(0), microseconds(8),  microseconds(0),
                                          microseconds(0),   microseconds(0), microseconds(0),  microseconds(37)};
  ASSERT_EQ(Make(GetParam()), Error::kSuccess);
  EXPECT_EQ(calls().driver_time(), costs[static_cast<size_t>(GetParam())]);
}

// But for kContext, which the driver's functions alone count, and kUnmapWhileBusy, which is no call.
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
  EXPECT_EQ(calls.Begin(CallKind::kMap), Error::kSuccess);
  calls.SetFaults(*FaultPlan::Parse("map@2=invalid_value"));
  EXPECT_EQ(calls.Begin(CallKind::kMap), Error::kSuccess);
  EXPECT_EQ(calls.Begin(CallKind::kMap), Error::kInvalidValue);
  EXPECT_EQ(calls.Begin(CallKind::kMap), Error::kSuccess);
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

}  // namespace
}  // namespace frugal::sim
