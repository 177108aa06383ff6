#include "cuda/host_copies.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/cuda/host_copies_fixture.h"

namespace frugal {
namespace {

using Kind = HostCopies::Kind;

INSTANTIATE_TEST_SUITE_P(Both, HostCopiesTest, testing::Values(Kind::kPinned, Kind::kPageable), KindName);

TEST_P(HostCopiesTest, RangesOfAnySizeComeBackByteByByte) {
  const Address memory = NewMemory(MiB(100));
  const Ranges ranges = {{memory + Bytes(1), Bytes(1)},
                         {memory + Bytes(7), KiB(3)},
                         {memory + MiB(1), MiB(70) + Bytes(12345)},
                         {memory + MiB(80), CopyRing::kBuffer},
                         {memory + MiB(90), MiB(10)}};
  Write(ranges, 1);
  CopyOut(ranges, GetParam());
  Lose(ranges);
  EXPECT_EQ(CopyIn(ranges), Total(ranges));
  EXPECT_TRUE(Holds(ranges, 1));
  // The copies are still there.
  Lose(ranges);
  EXPECT_EQ(CopyIn(ranges), Total(ranges));
  EXPECT_TRUE(Holds(ranges, 1));
}

TEST_P(HostCopiesTest, WhatLiesBesideTheRangesIsLeftAlone) {
  const Address memory = NewMemory(MiB(2));
  const Ranges all = {{memory, MiB(2)}};
  const Ranges ranges = {{memory + Bytes(3), Bytes(1001)}, {memory + MiB(1), Bytes(999)}};
  Write(all, 1);
  CopyOut(ranges, GetParam());
  Write(all, 2);
  EXPECT_EQ(CopyIn(all), Total(ranges));
  EXPECT_TRUE(Holds(ranges, 1));
  EXPECT_TRUE(Holds({{memory, Bytes(3)}, {memory + Bytes(1004), MiB(1) - Bytes(1004)}}, 2));
  EXPECT_TRUE(Holds({{memory + MiB(1) + Bytes(999), MiB(1) - Bytes(999)}}, 2));
}

TEST_P(HostCopiesTest, TenThousandSmallRangesTakeOneWaitAndNoMemoryEach) {
  const Address memory = NewMemory(MiB(20));
  Ranges ranges;
  for (int i = 0; i < 10'000; ++i) ranges.push_back({memory + KiB(2) * i, Bytes(512)});
  Write(ranges, 1);
  CopyOut(ranges, GetParam());
  EXPECT_EQ(watch.calls["StreamSynchronize"], 1);
  Lose(ranges);
  EXPECT_EQ(CopyIn(ranges), Total(ranges));
  EXPECT_TRUE(Holds(ranges, 1));
  EXPECT_EQ(watch.calls["StreamSynchronize"], 2);
  EXPECT_EQ(watch.calls["EventSynchronize"], 0) << "all of it fits the ring";
  EXPECT_EQ(times_.Of(DriverCall::sync).calls, 2);
  const Bytes ring = GetParam() == Kind::kPageable ? CopyRing::kBuffer * CopyRing::kBuffers : Bytes(0);
  EXPECT_EQ(copies_->host(), PagesCovering(Total(ranges)).bytes() + ring);
}

TEST_P(HostCopiesTest, ALaterCopyTakesThePlaceOfAnEarlierOne) {
  const Address memory = NewMemory(MiB(8));
  const Ranges all = {{memory, MiB(8)}};
  const Ranges middle = {{memory + MiB(3) + Bytes(5), MiB(1)}};
  Write(all, 1);
  CopyOut(all, GetParam());
  Write(middle, 2);
  CopyOut(middle, GetParam());
  Lose(all);
  EXPECT_EQ(CopyIn(all), MiB(8));
  EXPECT_TRUE(Holds(middle, 2));
  EXPECT_TRUE(Holds({{memory, MiB(3) + Bytes(5)}}, 1));
  EXPECT_TRUE(Holds({{memory + MiB(4) + Bytes(5), MiB(4) - Bytes(5)}}, 1));
}

TEST_P(HostCopiesTest, TheHostCanReadAnyPartOfWhatWasCopied) {
  const Address memory = NewMemory(MiB(80));
  Write({{memory, MiB(80)}}, 1);
  const std::string all(static_cast<const char*>(memory.pointer()), static_cast<size_t>(MiB(80).count()));
  CopyOut({{memory, MiB(70)}, {memory + MiB(71), MiB(4)}}, GetParam());
  std::string read(static_cast<size_t>(MiB(3).count()), 'x');
  EXPECT_EQ(copies_->Read({memory + MiB(64) + Bytes(3), MiB(3)}, read.data()), MiB(3));
  EXPECT_EQ(read, all.substr(static_cast<size_t>((MiB(64) + Bytes(3)).count()), read.size()));
  // What was not is left as it is.
  EXPECT_EQ(copies_->Read({memory + MiB(69), MiB(3)}, read.data()), MiB(2));
  const size_t mib = static_cast<size_t>(MiB(1).count());
  EXPECT_EQ(read.substr(0, mib), all.substr(69 * mib, mib));
  EXPECT_EQ(read.substr(mib, mib), all.substr((64 + 1) * mib + 3, mib));
  EXPECT_EQ(read.substr(2 * mib), all.substr(71 * mib, mib));
  EXPECT_EQ(copies_->Read({memory + MiB(76), MiB(1)}, read.data()), Bytes(0));
}

TEST_P(HostCopiesTest, WhatIsDroppedIsNotCopiedBack) {
  const Address memory = NewMemory(MiB(8));
  const Ranges all = {{memory, MiB(2)}, {memory + MiB(4), MiB(4)}};
  Write(all, 1);
  CopyOut(all, GetParam());
  Write(all, 2);
  copies_->Drop(Ranges{{memory + MiB(1), MiB(4)}, {memory + MiB(7), Bytes(100)}});
  EXPECT_EQ(CopyIn(all), MiB(4) - Bytes(100));
  EXPECT_TRUE(Holds({{memory, MiB(1)}, {memory + MiB(5), MiB(2)}}, 1));
  EXPECT_TRUE(Holds({{memory + MiB(1), MiB(1)}, {memory + MiB(4), MiB(1)}, {memory + MiB(7), Bytes(100)}}, 2));
  EXPECT_TRUE(Holds({{memory + MiB(7) + Bytes(100), MiB(1) - Bytes(100)}}, 1));
}

TEST_P(HostCopiesTest, CopiesOfWhatWasFreedMeanwhileGo) {
  const Address memory = NewMemory(MiB(8));
  const Ranges all = {{memory, MiB(4)}, {memory + MiB(4), MiB(4)}};
  const Ranges alive = {{memory + MiB(6), MiB(1)}, {memory + MiB(1), MiB(2)}};
  Write(all, 1);
  CopyOut(all, GetParam());
  Write(all, 2);
  copies_->KeepOnly(alive);
  EXPECT_EQ(CopyIn(all), MiB(3));
  EXPECT_TRUE(Holds(alive, 1));
  EXPECT_TRUE(Holds({{memory, MiB(1)}, {memory + MiB(3), MiB(3)}, {memory + MiB(7), MiB(1)}}, 2));
  copies_->KeepOnly({});
  EXPECT_EQ(CopyIn(all), Bytes(0));
}

TEST_P(HostCopiesTest, FilledMemoryIsAllOnes) {
  const Address memory = NewMemory(MiB(2));
  Write({{memory, MiB(2)}}, 1);
  ASSERT_TRUE(copies_->Fill(Ranges{{memory + Bytes(3), Bytes(5)}, {memory + MiB(1), MiB(1)}}).ok());
  const auto* const bytes = static_cast<const uint8_t*>(memory.pointer());
  for (int64_t i : {3, 7, 1 << 20, (2 << 20) - 1}) EXPECT_EQ(bytes[i], 0xFF) << i;
  EXPECT_TRUE(Holds({{memory, Bytes(3)}, {memory + Bytes(8), MiB(1) - Bytes(8)}}, 1));
}

TEST_F(HostCopiesTest, PinnedMemoryIsKeptForTheNextTimeAndGoesWhenTrimmed) {
  const Address memory = NewMemory(MiB(200));
  const Ranges ranges = {{memory, MiB(130)}};
  CopyOut(ranges, Kind::kPinned);
  EXPECT_EQ(copies_->pinned(), MiB(130));
  EXPECT_EQ(watch.calls["MemHostAlloc"], 3) << "64, 64 and 2 MiB";
  copies_->Drop(Ranges{{memory + MiB(10), MiB(120)}});
  EXPECT_EQ(copies_->pinned(), MiB(130));
  CopyOut({{memory + MiB(20), MiB(120)}}, Kind::kPinned);
  EXPECT_EQ(watch.calls["MemHostAlloc"], 3);
  copies_->Drop(Ranges{{memory + MiB(10), MiB(150)}});
  ASSERT_TRUE(copies_->Trim().ok());
  EXPECT_LE(copies_->pinned(), MiB(66)) << "copies lie in two of the pieces at most";
  EXPECT_EQ(CopyIn(ranges), MiB(10));
  copies_->KeepOnly({});
  ASSERT_TRUE(copies_->Trim().ok());
  EXPECT_EQ(copies_->host(), Bytes(0));
  EXPECT_EQ(Live(), 0);
}

TEST_F(HostCopiesTest, PageableMemoryGoesWithItsLastCopyAndItsRingWhenTrimmed) {
  const Address memory = NewMemory(MiB(130));
  const Bytes ring = CopyRing::kBuffer * CopyRing::kBuffers;
  CopyOut({{memory, MiB(130)}}, Kind::kPageable);
  EXPECT_EQ(copies_->host(), MiB(130) + ring);
  EXPECT_EQ(copies_->pinned(), ring);
  ASSERT_TRUE(copies_->Trim().ok());
  EXPECT_EQ(copies_->pinned(), ring) << "waking needs it";
  EXPECT_EQ(CopyIn({{memory, MiB(130)}}), MiB(130));
  copies_->Drop(Ranges{{memory, MiB(130)}});
  EXPECT_EQ(copies_->host(), ring);
  ASSERT_TRUE(copies_->Trim().ok());
  EXPECT_EQ(copies_->host(), Bytes(0));
  EXPECT_EQ(Live(), 0);
}

TEST_F(HostCopiesTest, BothKindsSleepAtATime) {
  const Address memory = NewMemory(MiB(8));
  const Ranges pinned = {{memory, MiB(2)}};
  const Ranges pageable = {{memory + MiB(4), MiB(4)}};
  const Ranges all = {{memory, MiB(8)}};
  Write(all, 1);
  CopyOut(pinned, Kind::kPinned);
  CopyOut(pageable, Kind::kPageable);
  Lose(all);
  EXPECT_EQ(CopyIn(all), MiB(6));
  EXPECT_TRUE(Holds(pinned, 1));
  EXPECT_TRUE(Holds(pageable, 1));
}

TEST_F(HostCopiesTest, IdlePinnedMemoryIsNotHeldBesidePageable) {
  const Address memory = NewMemory(MiB(8));
  CopyOut({{memory, MiB(8)}}, Kind::kPinned);
  copies_->KeepOnly({});
  CopyOut({{memory, MiB(8)}}, Kind::kPageable);
  EXPECT_EQ(copies_->pinned(), CopyRing::kBuffer * CopyRing::kBuffers);
}

TEST_P(HostCopiesTest, FiftyCyclesHoldAsMuchAsTheFirst) {
  const Address memory = NewMemory(MiB(40));
  std::vector<Bytes> held;
  for (int cycle = 0; cycle < 50; ++cycle) {
    // Other ranges each time, of 20 MiB in all.
    Ranges ranges;
    const Bytes shift = Bytes(1000 * cycle);
    for (int i = 0; i < 10; ++i) ranges.push_back({memory + MiB(4) * i + shift, MiB(2) + Bytes(i < 5 ? 7 : -7)});
    Write(ranges, static_cast<size_t>(cycle));
    CopyOut(ranges, GetParam());
    held.push_back(copies_->host());
    Lose(ranges);
    EXPECT_EQ(CopyIn(ranges), MiB(20));
    EXPECT_TRUE(Holds(ranges, static_cast<size_t>(cycle))) << cycle;
    copies_->KeepOnly({});
  }
  EXPECT_EQ(held, std::vector<Bytes>(50, held.front()));
  EXPECT_EQ(watch.calls["MemHostAlloc"], 1);
  EXPECT_EQ(watch.calls["StreamCreate"], 1);
}

// As a host has it with so much available; a 20th of it all is left alone.
UnifiedMemory::FileReader HostOf(Bytes total, Bytes available) {
  const std::string text =
      absl::StrCat("MemTotal: ", total.count() >> 10, " kB\nMemAvailable: ", available.count() >> 10, " kB\n");
  return [text](const std::string& path) -> std::optional<std::string> {
    if (path == "/proc/meminfo") return text;
    return std::nullopt;
  };
}

// Reserve() looks at nothing else.
std::vector<AddressRange> Sized(Bytes size) { return {{Address(1 << 20), size}}; }

TEST_P(HostCopiesTest, ShortHostMemoryIsAnErrorThatSaysHowShortAndTakesNothing) {
  copies_ = MakeCopies(HostOf(MiB(400), MiB(150)));
  const absl::Status status = copies_->Reserve(Sized(MiB(131)), GetParam());
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(absl::StrContains(status.message(), "132.00 MiB more")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "130.00 MiB can be had")) << status;
  EXPECT_EQ(copies_->host(), Bytes(0));
  EXPECT_EQ(Live(), 0);
  EXPECT_TRUE(copies_->Reserve(Sized(MiB(130)), GetParam()).ok());
}

TEST_P(HostCopiesTest, HostMemoryThatOthersTakeMeanwhileIsNotTakenToo) {
  // With each look 100 MiB less are available.
  const auto looks = std::make_shared<int>(0);
  copies_ = MakeCopies([looks](const std::string& path) -> std::optional<std::string> {
    if (path != "/proc/meminfo") return std::nullopt;
    return HostOf(GiB(1), GiB(1) - MiB(100) * (*looks)++)(path);
  });
  const absl::Status status = copies_->Reserve(Sized(MiB(800)), GetParam());
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_GT(*looks, 2) << "some had been taken";
  EXPECT_EQ(copies_->host(), Bytes(0));
}

TEST_P(HostCopiesTest, AHostThatDoesNotSayWhatItHasIsNotRefused) {
  copies_ = MakeCopies([](const std::string&) { return std::nullopt; });
  EXPECT_TRUE(copies_->Reserve(Sized(MiB(2)), GetParam()).ok());
}

TEST_P(HostCopiesTest, ThreadsContextAndCaptureAreAsBefore) {
  const Address memory = NewMemory(MiB(2));
  const Ranges ranges = {{memory, MiB(2)}};
  Write(ranges, 1);
  ASSERT_EQ(SIMULATED(cudaSetDevice)(1), cudaSuccess);
  cudaStream_t captured = nullptr;
  ASSERT_EQ(SIMULATED(cudaStreamCreate)(&captured), cudaSuccess);
  ASSERT_EQ(SIMULATED(cudaStreamBeginCapture)(captured, cudaStreamCaptureModeGlobal), cudaSuccess);
  CopyOut(ranges, GetParam());
  Lose(ranges);
  EXPECT_EQ(CopyIn(ranges), MiB(2));
  EXPECT_TRUE(copies_->Trim().ok());
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(SIMULATED(cudaStreamEndCapture)(captured, &graph), cudaSuccess);
  int current = -1;
  EXPECT_EQ(SIMULATED(cudaGetDevice)(&current), cudaSuccess);
  EXPECT_EQ(current, 1);
  EXPECT_EQ(SIMULATED(cudaSetDevice)(0), cudaSuccess);
  EXPECT_TRUE(Holds(ranges, 1));
  // One that has no context.
  std::thread([&] {
    Lose(ranges);
    EXPECT_EQ(CopyIn(ranges), MiB(2));
  }).join();
  EXPECT_TRUE(Holds(ranges, 1));
  const std::set<CUcontext> primary = {reinterpret_cast<CUcontext>(device_->primary_context())};
  EXPECT_EQ(watch.contexts, primary) << "of every call";
}

TEST(HostPoolTest, NoPieceReachesFromOneChunkIntoTheNext) {
  // Each call of this driver has the memory behind that of the call before.
  DriverApi api = {};
  api.MemHostAlloc = [](void** start, size_t size, unsigned) {
    static uintptr_t next = 1 << 30;
    *start = reinterpret_cast<void*>(next);
    next += size;
    return CUDA_SUCCESS;
  };
  HostPool pool(api, [](const std::string&) { return std::nullopt; });
  ASSERT_TRUE(pool.Grow(HostPool::kChunk * 2, HostPool::Kind::kPinned).ok());
  const AddressRange half = pool.Take(HostPool::Kind::kPinned, HostPool::kChunk - MiB(1));
  EXPECT_EQ(half.size, HostPool::kChunk - MiB(1));
  EXPECT_EQ(pool.Take(HostPool::Kind::kPinned, HostPool::kChunk).size, MiB(1));
  EXPECT_EQ(pool.Take(HostPool::Kind::kPinned, HostPool::kChunk * 2).size, HostPool::kChunk);
  EXPECT_EQ(pool.Take(HostPool::Kind::kPinned, Bytes(1)).size, Bytes(0));
}

}  // namespace
}  // namespace frugal
