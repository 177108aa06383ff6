// Children by fork() of a process that we are installed in.

#include <c10/cuda/CUDACachingAllocator.h>
#include <dlfcn.h>
#include <frugal_alloc/torch.h>

#include <cstdint>
#include <latch>
#include <thread>

#include "gtest/gtest.h"
#include "tests/bindings/child.h"
#include "tests/bindings/started_cuda.h"

namespace {

namespace caching = c10::cuda::CUDACachingAllocator;

constexpr size_t kSize = 10 << 20;
using frugal::HoldsInChild;

// What this process has asked of the driver, refused calls included.
uint64_t DriverCalls() {
  static const auto calls = reinterpret_cast<uint64_t (*)(const char*)>(dlsym(RTLD_DEFAULT, "frugal_sim_calls"));
  uint64_t sum = 0;
  for (const char* kind : {"create", "map", "set_access", "unmap", "release", "reserve", "unreserve", "malloc", "free",
                           "event_record", "event_query", "stream_wait", "sync"}) {
    sum += calls(kind);
  }
  return sum;
}

// The first test: once CUDA has started in this process, no child can use it.
TEST(ForkTest, AChildOfAProcessThatHasNotStartedCudaMayUseIt) {
  ASSERT_TRUE(frugal_alloc::enable());
  EXPECT_TRUE(HoldsInChild([] {
    caching::init(1);
    EXPECT_TRUE(frugal_alloc::is_enabled());
    const c10::DataPtr block = caching::get()->allocate(kSize);
    EXPECT_NE(block.get(), nullptr);
    EXPECT_EQ(caching::getDeviceStats(0).allocated_bytes[0].current, static_cast<int64_t>(kSize));
  }));
}

class ForkFromCudaTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { frugal::StartCuda(1); }
  void SetUp() override { ASSERT_TRUE(frugal_alloc::enable()); }
};

TEST_F(ForkFromCudaTest, WhatTheChildFreesStaysTheParents) {
  caching::CUDAAllocator& allocator = *caching::get();
  c10::DataPtr ours = allocator.allocate(kSize);
  void* const raw = allocator.raw_alloc(kSize);
  ASSERT_TRUE(frugal_alloc::disable());
  c10::DataPtr natives = allocator.allocate(kSize);
  const int64_t allocated = caching::getDeviceStats(0).allocated_bytes[0].current;
  EXPECT_TRUE(HoldsInChild([&] {
    const uint64_t calls = DriverCalls();
    ours.clear();
    natives.clear();
    allocator.raw_delete(raw);
    EXPECT_EQ(DriverCalls(), calls);
  }));
  EXPECT_EQ(caching::getDeviceStats(0).allocated_bytes[0].current, allocated);
  allocator.raw_delete(raw);
}

TEST_F(ForkFromCudaTest, TheChildIsToldThatItCannotUseCuda) {
  caching::get()->allocate(kSize);
  ASSERT_TRUE(frugal_alloc::disable());
  EXPECT_TRUE(HoldsInChild([] {
    EXPECT_THROW(caching::get()->allocate(kSize), c10::Error);
    EXPECT_TRUE(frugal_alloc::disable());
    const frugal_alloc::Status status = frugal_alloc::enable();
    EXPECT_FALSE(status);
    EXPECT_NE(status.message().find("\"spawn\""), std::string::npos) << status.message();
    EXPECT_NO_THROW(caching::emptyCache());
  }));
}

// Last: a trace tracker cannot be taken away again. It is called with our locks held.
TEST_F(ForkFromCudaTest, AThreadThatHeldOurLocksDoesNotHoldUpTheChild) {
  c10::DataPtr ours = caching::get()->allocate(kSize);
  std::latch locked(1);
  std::latch forked(1);
  static bool holding = false;
  caching::attachAllocatorTraceTracker([&](const auto& /*entry*/) {
    if (!holding) return;
    holding = false;
    locked.count_down();
    forked.wait();
  });
  holding = true;
  std::thread thread([] { caching::get()->allocate(kSize); });
  locked.wait();
  const bool holds = HoldsInChild([&] {
    ours.clear();
    EXPECT_NO_THROW(caching::emptyCache());
    EXPECT_EQ(caching::getDeviceStats(0).allocated_bytes[0].current, 0);
    EXPECT_TRUE(frugal_alloc::is_enabled());
  });
  forked.count_down();
  thread.join();
  EXPECT_TRUE(holds);
}

}  // namespace
