// Those that PyTorch calls back while memory is asked for, and what they may do then.

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <frugal_alloc/torch.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/bindings/started_cuda.h"

namespace {

// Called by native before it gives up its cache, under its lock of the GPU.
class Callback final : public c10::FreeMemoryCallback {
 public:
  bool Execute() override {
    if (function_ != nullptr) function_();
    return false;
  }
  static void Set(std::function<void()> function) { function_ = std::move(function); }

 private:
  static std::function<void()> function_;
};
std::function<void()> Callback::function_;

}  // namespace

namespace c10 {
REGISTER_FREE_MEMORY_CALLBACK("observers_test", Callback)
}  // namespace c10

namespace {

namespace caching = c10::cuda::CUDACachingAllocator;
using TraceEntry = caching::TraceEntry;

constexpr size_t kSize = 10 << 20;
constexpr c10::MempoolId_t kDefaultPool = {0, 0};

class ObserversTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    frugal::StartCuda(2);
    ASSERT_TRUE(frugal_alloc::enable());
  }
  static c10::DataPtr AllocateOn(c10::DeviceIndex gpu) {
    const c10::cuda::CUDAGuard guard(gpu);
    return caching::get()->allocate(kSize);
  }
  static c10::DataPtr NativesOn(c10::DeviceIndex gpu) {
    EXPECT_TRUE(frugal_alloc::disable());
    c10::DataPtr block = AllocateOn(gpu);
    EXPECT_TRUE(frugal_alloc::enable());
    return block;
  }
};

TEST_F(ObserversTest, TrackersHearOfWhatTheHistoryLeavesOut) {
  // A tracker stays.
  static auto& heard = *new std::vector<TraceEntry::Action>();
  caching::get()->attachAllocatorTraceTracker([](const TraceEntry& entry) { heard.push_back(entry.action_); });
  const auto record = [](bool enabled) {
    caching::get()->recordHistory(enabled, nullptr, 10, caching::RecordContext::NEVER, true, {"alloc"});
  };
  record(true);
  static_cast<void>(AllocateOn(0));
  const caching::SnapshotInfo snapshot = caching::get()->snapshot(kDefaultPool);
  record(false);
  EXPECT_EQ(std::count(heard.begin(), heard.end(), TraceEntry::ALLOC), 1);
  EXPECT_FALSE(snapshot.device_traces.at(0).empty());
  for (const TraceEntry& entry : snapshot.device_traces.at(0)) EXPECT_NE(entry.action_, TraceEntry::ALLOC);
}

// Else two GPUs whose callbacks free each other's memory would wait for each other.
TEST_F(ObserversTest, NativeMemoryIsFreedWithoutTheLockOfAnotherGpu) {
  const std::vector<c10::DataPtr> ours = [] {
    std::vector<c10::DataPtr> blocks;
    for (c10::DeviceIndex gpu : {0, 1}) blocks.push_back(AllocateOn(gpu));
    return blocks;
  }();
  std::optional<c10::DataPtr> natives = NativesOn(1);
  bool called = false;
  Callback::Set([&] {
    if (called) return;
    called = true;
    std::thread([&] { natives.reset(); }).join();
  });
  static_cast<void>(NativesOn(0));
  Callback::Set(nullptr);
  EXPECT_TRUE(called);
  EXPECT_FALSE(natives.has_value());
  // What ours rise to now is no peak together with what native held before.
  caching::get()->resetPeakStats(1);
  const c10::DataPtr more = AllocateOn(1);
  const auto stats = caching::get()->getDeviceStats(1).allocated_bytes[0];
  EXPECT_EQ(stats.peak, stats.current);
}

}  // namespace
