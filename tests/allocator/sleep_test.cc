// Blocks that keep their addresses while their memory is elsewhere.

#include <tuple>
#include <vector>

#include "tests/allocator/sized_handles.h"

namespace frugal {
namespace {

class Sleeping : public AllocatorTest {
 protected:
  void SetTag(Address address, uint8_t tag) { EXPECT_TRUE(sleep().SetTag(address, tag).ok()); }
};

using Parts = std::vector<std::tuple<Address, Bytes, Sleep::Why>>;

Parts Stayed(const Sleep& sleep, Sleep::Choice chosen) {
  Parts parts;
  for (const Sleep::StayedPart& part : sleep.Stayed(chosen)) {
    parts.emplace_back(part.block.address, part.size, part.why);
  }
  return parts;
}

TEST_F(Sleeping, MemoryGoesAndComesBackBelowTheSameAddresses) {
  const Address block = Allocate(MiB(24));
  EXPECT_EQ(FallAsleep(), (Ranges{{block, MiB(24)}}));
  EXPECT_EQ(device_.used(), MiB(24)) << "until it was copied";
  EXPECT_EQ(LetGo(), MiB(24));
  EXPECT_EQ(device_.used(), Bytes(0));
  EXPECT_EQ(all(statistics().allocated_bytes), MiB(24).count());
  EXPECT_EQ(all(statistics().reserved_bytes), 0);
  EXPECT_EQ(Wake(), (Ranges{{block, MiB(24)}}));
  EXPECT_EQ(device_.used(), MiB(24));
  Free(block);
  EXPECT_EQ(Allocate(MiB(24)), block);
}

TEST_F(Sleeping, UntilItsMemoryGoesASleepIsUndoneWithoutTheDriver) {
  const Address block = Allocate(MiB(24));
  FallAsleep();
  device_.ResetCounters();
  ASSERT_TRUE(sleep().WakeUp(All).ok());
  EXPECT_EQ(calls(CallKind::kMap) + calls(CallKind::kUnmap) + calls(CallKind::kSync), 0u);
  EXPECT_TRUE(sleep().Asleep().empty());
  Free(block);
  EXPECT_EQ(Trim(), MiB(24));
}

TEST_F(Sleeping, WhatIsGivenBackAsleepIsInNoSnapshot) {
  const Address first = Allocate(MiB(24));
  const Address second = Allocate(MiB(8));
  PutToSleep();
  Free(first);
  sleep().EnterGivenBack();
  Bytes shown;
  for (const SegmentView& segment : allocator_->inspect().Snapshot()) shown += segment.size;
  EXPECT_EQ(shown, MiB(8)) << "the one that sleeps";
  Wake();
  Free(second);
}

TEST_F(Sleeping, WhatSleepsAsItsPoolIsKeptIsKeptWhenItWakes) {
  constexpr PoolId kPool{0, 1};
  const Address block = AllocateFrom({kPool}, MiB(8));
  PutToSleep();
  EXPECT_TRUE(allocator_->KeepPool(kPool).ok());
  Wake();
  Free(block);
  EXPECT_EQ(Trim(), Bytes(0)) << "a graph may read it";
  EXPECT_TRUE(allocator_->ReleasePool(kPool).ok());
  EXPECT_EQ(Trim(), MiB(8));
}

TEST_F(Sleeping, OthersHaveTheMemoryMeanwhile) {
  const Address block = Allocate(MiB(60));
  EXPECT_TRUE(IsOutOfMemory(MiB(40)));
  PutToSleep();
  const Address other = Allocate(MiB(40));
  EXPECT_TRUE(absl::IsResourceExhausted(sleep().TakeBack(All).status()));
  allocator_->inspect().CheckInvariants();
  EXPECT_EQ(device_.used(), MiB(40)) << "nothing has changed";
  Free(other);
  EXPECT_EQ(Wake(), (Ranges{{block, MiB(60)}})) << "what is free goes for it";
}

TEST_F(Sleeping, WhatSharesAHandleWithABlockThatIsAwakeStays) {
  const Address first = Allocate(MiB(3));
  const Address second = Allocate(MiB(3));
  ASSERT_EQ(second, first + MiB(3));
  SetTag(first, 1);
  const auto of_one = [](Address, uint8_t tag) { return tag == 1; };
  EXPECT_EQ(FallAsleep(of_one), (Ranges{{first, MiB(2)}}));
  EXPECT_EQ(LetGo(), MiB(2));
  EXPECT_EQ(Wake(of_one), (Ranges{{first, MiB(2)}}));
  SetTag(second, 1);
  EXPECT_EQ(FallAsleep(of_one), (Ranges{{first, MiB(3)}, {second, MiB(3)}}));
  EXPECT_EQ(LetGo(), MiB(6));
}

TEST_F(Sleeping, ASecondSleepAddsToTheFirst) {
  const Address first = Allocate(MiB(3));
  const Address second = Allocate(MiB(3));
  PutToSleep([&](Address address, uint8_t) { return address == first; });
  EXPECT_EQ(FallAsleep(), (Ranges{{first + MiB(2), MiB(1)}, {second, MiB(3)}}));
  EXPECT_EQ(LetGo(), MiB(4));
  EXPECT_EQ(Wake([&](Address address, uint8_t) { return address == second; }),
            (Ranges{{first + MiB(2), MiB(1)}, {second, MiB(3)}}))
      << "what lies in its pages is lacking, too";
  EXPECT_EQ(Wake(), (Ranges{{first, MiB(2)}}));
}

TEST_F(Sleeping, ItIsChosenAmongThoseThatAreAwake) {
  const Address first = Allocate(MiB(8));
  const Address second = Allocate(MiB(8));
  PutToSleep([&](Address address, uint8_t) { return address == first; });
  std::vector<Address> asked;
  const auto all = [&](Address address, uint8_t) {
    asked.push_back(address);
    return true;
  };
  EXPECT_EQ(FallAsleep(all), (Ranges{{second, MiB(8)}}));
  EXPECT_EQ(asked, std::vector<Address>{second}) << "who undoes this sleep wakes no other";
}

TEST_F(Sleeping, FreeMemoryInTheirPagesGoesWithThem) {
  std::vector<Address> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(Allocate(MiB(3)));
  Free(blocks[1]);
  EXPECT_EQ(FallAsleep().size(), 3u);
  EXPECT_EQ(LetGo(), MiB(10)) << "a page is free by itself";
  EXPECT_EQ(Wake(), (Ranges{{blocks[0], MiB(3)}, {blocks[2], MiB(3)}, {blocks[3], MiB(3)}}));
  EXPECT_EQ(Allocate(MiB(3)), blocks[1]) << "all its pages have memory again";
}

TEST_F(Sleeping, ABlockThatIsGivenBackWhileAsleepIsNotWoken) {
  const Address first = Allocate(MiB(8));
  const Address second = Allocate(MiB(8));
  PutToSleep();
  Free(first);
  EXPECT_EQ(all(statistics().allocated_bytes), MiB(8).count());
  EXPECT_EQ(Wake(), (Ranges{{second, MiB(8)}}));
  EXPECT_EQ(device_.used(), MiB(8));
  EXPECT_EQ(Allocate(MiB(8)), first) << "its addresses serve again";
}

TEST_F(Sleeping, ABlockThatIsGivenBackWhileItIsCopiedLosesItsMemory) {
  const Address block = Allocate(MiB(8));
  FallAsleep();
  Free(block);
  EXPECT_EQ(LetGo(), MiB(8));
  EXPECT_EQ(Wake(), Ranges());
  EXPECT_EQ(Allocate(MiB(8)), block);
}

TEST_F(Sleeping, WhatIsFreedBesideItMeanwhileKeepsItsMemory) {
  const Address first = Allocate(MiB(3));
  const Address second = Allocate(KiB(1538));
  FallAsleep([&](Address address, uint8_t) { return address == first; });
  Free(second);
  EXPECT_EQ(LetGo(), MiB(2));
  Wake();
}

TEST_F(Sleeping, ItIsToldWhatStayedAndWhy) {
  const Address first = Allocate(MiB(3));
  const Address second = Allocate(MiB(3));
  const Address third = Allocate(MiB(8));
  ASSERT_EQ(third, second + MiB(3));
  SetTag(second, 1);
  SetTag(third, 2);
  const auto tagged = [](Address, uint8_t tag) { return tag != 0; };
  ASSERT_TRUE(allocator_->KeepInPlace(third + MiB(4), MiB(2), true).ok());
  PutToSleep(tagged);
  EXPECT_EQ(Stayed(sleep(), tagged),
            (Parts{{second, MiB(1), Sleep::Why::kBesideAwake}, {third, MiB(2), Sleep::Why::kKeptInPlace}}));
  EXPECT_EQ(Stayed(sleep(), [](Address, uint8_t tag) { return tag == 2; }),
            (Parts{{third, MiB(2), Sleep::Why::kKeptInPlace}}))
      << "of those that are meant";
  EXPECT_EQ(sleep().Stayed(tagged)[0].block.tag, 1);
  EXPECT_EQ(Stayed(sleep(), All), (Parts{{third, MiB(2), Sleep::Why::kKeptInPlace}}))
      << "if all are meant, no block that stays awake is beside";
  Free(first);
  EXPECT_EQ(Stayed(sleep(), tagged), (Parts{{third, MiB(2), Sleep::Why::kKeptInPlace}})) << "nor if it is gone";
}

TEST_F(Sleeping, ItIsToldWhatIsAsleepAndWhatThatLacks) {
  allocator_->births().Start();
  const Address first = Allocate(MiB(3));
  const Address second = allocator_->Allocate(MiB(5), kMain, nullptr, Bytes(0), {SiteId{7}})->address;
  ASSERT_EQ(second, first + MiB(3));
  EXPECT_TRUE(sleep().Asleep().empty());
  SetTag(second, 3);
  PutToSleep([](Address, uint8_t tag) { return tag == 3; });
  const std::vector<Sleep::AsleepBlock> asleep = sleep().Asleep();
  ASSERT_EQ(asleep.size(), 1u);
  EXPECT_EQ(asleep[0].block.address, second);
  EXPECT_EQ(asleep[0].block.size, MiB(5));
  EXPECT_EQ(asleep[0].block.tag, 3);
  EXPECT_EQ(asleep[0].block.site, SiteId{7});
  EXPECT_EQ(asleep[0].lacking, (Ranges{{first + MiB(4), MiB(4)}}));
  EXPECT_EQ(allocator_->inspect().FindBlock(second)->tag, 3);
  Free(second);
  EXPECT_TRUE(sleep().Asleep().empty());
  EXPECT_EQ(allocator_->inspect().FindBlock(first)->tag, 0);
}

TEST_F(Sleeping, ATagGoesWithItsBlock) {
  const Address block = Allocate(MiB(8));
  SetTag(block, 1);
  Free(block);
  ASSERT_EQ(Allocate(MiB(8)), block);
  EXPECT_EQ(PutToSleep([](Address, uint8_t tag) { return tag != 0; }), Ranges());
}

TEST_F(Sleeping, AWakeIsUndoneAndTakesNothingElse) {
  const Address first = Allocate(MiB(8));
  const Address second = Allocate(MiB(8));
  FallAsleep();
  ASSERT_TRUE(device_.SetFaults("unmap@2=invalid_value"));
  EXPECT_FALSE(sleep().LetGo().ok());
  const Bytes left = device_.used();
  ASSERT_GT(left, Bytes(0)) << "who copies knows that it is no copy that has to be kept";
  ASSERT_TRUE(device_.SetFaults(""));
  TakeBack();
  EXPECT_EQ(LetGo(), MiB(16) - left);
  EXPECT_EQ(device_.used(), left);
  Wake();
  Free(first);
  Free(second);
}

TEST_F(Sleeping, FiftyCyclesLeaveEverythingAsTheFirst) {
  std::vector<Address> blocks;
  for (int i = 0; i < 6; ++i) blocks.push_back(Allocate(MiB(5)));
  Free(blocks[3]);
  PutToSleep();
  Wake();
  const Bytes used = device_.used();
  device_.ResetCounters();
  PutToSleep();
  Wake();
  const uint64_t maps = calls(CallKind::kMap);
  for (int i = 0; i < 50; ++i) {
    device_.ResetCounters();
    PutToSleep();
    Wake();
    EXPECT_EQ(calls(CallKind::kMap), maps);
    EXPECT_EQ(device_.used(), used);
  }
}

class SleepingInLargeHandles : public SizedHandlesTest {};

TEST_F(SleepingInLargeHandles, AWakeTakesNoMoreHandlesThanTheRequestsDid) {
  for (const std::vector<int64_t>& pages : {std::vector<int64_t>{31}, {5, 11, 7}, {1, 2, 1, 17, 3}, {8, 8, 8}}) {
    std::vector<Address> blocks;
    device_.ResetCounters();
    for (const int64_t count : pages) blocks.push_back(AllocatePages(count));
    const uint64_t taken = calls(CallKind::kMap);
    PutToSleep();
    device_.ResetCounters();
    Wake();
    EXPECT_LE(calls(CallKind::kMap), taken);
    EXPECT_EQ(calls(CallKind::kCreate), calls(CallKind::kMap));
    EXPECT_LE(calls(CallKind::kSetAccess), pages.size()) << "as one, what lies side by side";
    for (const Address block : blocks) Free(block);
    Trim();
  }
}

TEST_F(SleepingInLargeHandles, AllPagesThatNoOtherBlockLiesInGoBack) {
  std::vector<Address> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(AllocatePages(5));
  for (size_t i = 0; i < blocks.size(); i += 2) ASSERT_TRUE(sleep().SetTag(blocks[i], 1).ok());
  const auto tagged = [](Address, uint8_t tag) { return tag == 1; };
  FallAsleep(tagged);
  EXPECT_EQ(LetGo(), Pages(20).bytes());
  EXPECT_EQ(Stayed(sleep(), tagged), Parts());
}

TEST_F(Sleeping, ObserversAreToldOfTheMemoryThatGoesAndComes) {
  RecordingObserver observer;
  const Address block = Allocate(MiB(8));
  allocator_->settings().SetObserver(&observer);
  PutToSleep();
  Wake();
  allocator_->settings().SetObserver(nullptr);
  ASSERT_EQ(observer.kinds(), (std::vector{MemoryEvent::Kind::kUnmap, MemoryEvent::Kind::kMap}));
  for (const MemoryEvent& event : observer.events) {
    EXPECT_EQ(event.address, block);
    EXPECT_EQ(event.size, MiB(8));
  }
}

TEST_F(Sleeping, WhileAStreamIsCapturedNothingFallsAsleep) {
  const Address block = Allocate(MiB(8));
  device_.BeginCapture(kMain);
  EXPECT_TRUE(absl::IsUnavailable(sleep().FallAsleep(All).status()));
  device_.EndCapture(kMain);
  EXPECT_EQ(PutToSleep(), (Ranges{{block, MiB(8)}}));
}

TEST_F(Sleeping, OtherStreamsOfABlockAreRememberedWhenItWakes) {
  const Address block = Allocate(MiB(8));
  EXPECT_TRUE(allocator_->RecordStream(block, kSide).ok());
  PutToSleep();
  Wake();
  MakeBusyUntil(kSide, now() + 100);
  Free(block);
  EXPECT_EQ(all(statistics().active_bytes()), MiB(8).count()) << "it awaits the other stream";
}

class SleepingWithoutVirtualMemory : public AllocatorTest {
 protected:
  SleepingWithoutVirtualMemory() : AllocatorTest(MiB(64), false) {}
};

TEST_F(SleepingWithoutVirtualMemory, NothingSleeps) {
  const Address block = Allocate(MiB(8));
  EXPECT_EQ(FallAsleep(), Ranges());
  EXPECT_EQ(LetGo(), Bytes(0));
  EXPECT_EQ(device_.used(), MiB(20));
  EXPECT_EQ(Stayed(sleep(), All), (Parts{{block, MiB(8), Sleep::Why::kInSegment}}));
}

}  // namespace
}  // namespace frugal
