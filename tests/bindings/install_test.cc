#include <c10/cuda/CUDACachingAllocator.h>
#include <frugal_alloc/torch.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/bindings/started_cuda.h"

namespace {

namespace caching = c10::cuda::CUDACachingAllocator;

constexpr size_t kSize = 10 << 20;

class InstallTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { frugal::StartCuda(1); }
  void SetUp() override {
    const frugal_alloc::Status status = frugal_alloc::install();
    ASSERT_TRUE(status) << status.message();
  }
};

int64_t AllocatedBytes() { return caching::getDeviceStats(0).allocated_bytes[0].current; }

TEST(InstallRefusalTest, NothingIsReportedBeforeInstalling) {
  if (frugal_alloc::installed()) GTEST_SKIP() << "installed by a test before this one";
  frugal_alloc::epoch_end();
  EXPECT_EQ(frugal_alloc::stats().allocations, 0);
  const frugal_alloc::Report report = frugal_alloc::report();
  EXPECT_FALSE(report.has_leak());
  EXPECT_NE(report.text.find("not enabled"), std::string::npos) << report.text;
}

TEST(InstallRefusalTest, IsOneLineAndLeavesPyTorchAsItWas) {
  if (frugal_alloc::installed()) GTEST_SKIP() << "installed by a test before this one";
  caching::CUDAAllocator* const native = caching::get();
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  const frugal_alloc::Status status = frugal_alloc::install();
  unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_FALSE(status);
  EXPECT_NE(status.message().find("CUDA_VISIBLE_DEVICES"), std::string::npos) << status.message();
  EXPECT_EQ(status.message().find('\n'), std::string::npos);
  EXPECT_EQ(caching::get(), native);
}

TEST_F(InstallTest, MemoryIsServedAndCounted) {
  ASSERT_TRUE(frugal_alloc::installed());
  const int64_t before = AllocatedBytes();
  {
    const c10::DataPtr block = caching::get()->allocate(kSize);
    EXPECT_NE(block.get(), nullptr);
    EXPECT_EQ(AllocatedBytes(), before + static_cast<int64_t>(kSize));
  }
  EXPECT_EQ(AllocatedBytes(), before);
}

TEST_F(InstallTest, TheRegistryOfAllocatorsHasItToo) {
  EXPECT_EQ(c10::GetAllocator(c10::DeviceType::CUDA), caching::get());
}

TEST_F(InstallTest, TheBaseOfABlockIsToldByWhoseItIs) {
  const c10::DataPtr ours = caching::get()->allocate(kSize);
  ASSERT_TRUE(frugal_alloc::uninstall());
  const c10::DataPtr natives = caching::get()->allocate(kSize);
  ASSERT_TRUE(frugal_alloc::install());
  for (const c10::DataPtr* block : {&ours, &natives}) {
    const auto address = reinterpret_cast<uintptr_t>(block->get());
    size_t size = 0;
    const auto base = reinterpret_cast<uintptr_t>(caching::get()->getBaseAllocation(block->get(), &size));
    EXPECT_LE(base, address);
    EXPECT_GE(base + size, address + kSize);
  }
}

TEST_F(InstallTest, MemoryOutlivesUninstalling) {
  c10::DataPtr ours = caching::get()->allocate(kSize);
  ASSERT_TRUE(frugal_alloc::uninstall());
  EXPECT_FALSE(frugal_alloc::installed());
  const c10::DataPtr natives = caching::get()->allocate(kSize);
  const int64_t before = AllocatedBytes();
  ours.clear();
  EXPECT_EQ(AllocatedBytes(), before - static_cast<int64_t>(kSize));
}

TEST_F(InstallTest, IdleMemoryIsGivenBack) {
  caching::get()->allocate(kSize);
  int64_t freed = -1;
  ASSERT_TRUE(frugal_alloc::trim(&freed));
  EXPECT_GE(freed, static_cast<int64_t>(kSize));
  ASSERT_TRUE(frugal_alloc::trim(&freed));
  EXPECT_EQ(freed, 0);
}

TEST_F(InstallTest, TheLargestFreeBlockMayBeOurs) {
  caching::get()->allocate(kSize);
  // Else it is first what the device has.
  size_t largest = 1;
  caching::get()->cacheInfo(0, &largest);
  EXPECT_GE(largest, kSize);
}

TEST_F(InstallTest, OptionsAreCheckedAndABadOneChangesNothing) {
  frugal_alloc::Options options;
  options.memory_limit = "plenty";
  const frugal_alloc::Status refused = frugal_alloc::install(options);
  EXPECT_FALSE(refused);
  EXPECT_NE(refused.message().find("memory_limit:plenty"), std::string::npos) << refused.message();
  options.memory_limit = "1GiB";
  ASSERT_TRUE(frugal_alloc::install(options));
  EXPECT_THROW(static_cast<void>(caching::get()->allocate(size_t{2} << 30)), c10::OutOfMemoryError);
  options.memory_limit = "off";
  ASSERT_TRUE(frugal_alloc::install(options));
  EXPECT_NE(caching::get()->allocate(size_t{2} << 30).get(), nullptr);
}

TEST_F(InstallTest, FiguresHaveTheirNames) {
  const frugal_alloc::Stats before = frugal_alloc::stats();
  const c10::DataPtr block = caching::get()->allocate(kSize + 1);
  const frugal_alloc::Stats after = frugal_alloc::stats();
  EXPECT_EQ(after.allocated_bytes - before.allocated_bytes, static_cast<int64_t>(kSize + 512));
  EXPECT_EQ(after.requested_bytes - before.requested_bytes, static_cast<int64_t>(kSize + 1));
  EXPECT_EQ(after.blocks - before.blocks, 1);
  EXPECT_EQ(after.allocations - before.allocations, 1);
  EXPECT_GE(after.reserved_bytes, after.allocated_bytes);
  EXPECT_EQ(frugal_alloc::stats(77).allocations, 0);
}

// Each test below leaks into a part of its own, since epochs are the process's.
std::vector<frugal_alloc::Finding> FindingsAt(const std::string& site) {
  std::vector<frugal_alloc::Finding> findings;
  for (const frugal_alloc::Finding& finding : frugal_alloc::report().findings) {
    if (finding.site == site) findings.push_back(finding);
  }
  return findings;
}

TEST_F(InstallTest, LeakIsFoundByEpochTenWithItsPartItsRateAndItsSize) {
  std::vector<c10::DataPtr> kept;
  for (int epoch = 0; epoch < 10; ++epoch) {
    const frugal_alloc::Phase training("training");
    for (int step = 0; step < 5; ++step) {
      caching::get()->allocate(300 << 10);
      const frugal_alloc::Phase validation("validation");
      kept.push_back(caching::get()->allocate(40 << 10));
    }
    frugal_alloc::epoch_end();
  }
  const std::vector<frugal_alloc::Finding> findings = FindingsAt("validation");
  ASSERT_EQ(findings.size(), 1);
  EXPECT_EQ(findings[0].verdict, frugal_alloc::Finding::Verdict::kLeak);
  EXPECT_DOUBLE_EQ(findings[0].bytes_per_epoch, 5 * 40 << 10);
  EXPECT_EQ(findings[0].largest_block, 64 << 10);
  EXPECT_EQ(findings[0].gpu, 0);
  EXPECT_TRUE(FindingsAt("training").empty());
  EXPECT_TRUE(frugal_alloc::report().has_leak());
  EXPECT_NE(frugal_alloc::report().text.find("leak    validation: 200.00 KiB per epoch"), std::string::npos)
      << frugal_alloc::report().text;
}

TEST_F(InstallTest, GrowthThatIsExpectedIsNotReported) {
  frugal_alloc::expect_growth("cache");
  std::vector<c10::DataPtr> kept;
  for (int epoch = 0; epoch < 12; ++epoch) {
    const frugal_alloc::Phase cache("cache");
    kept.push_back(caching::get()->allocate(3 << 20));
    frugal_alloc::epoch_end();
  }
  EXPECT_TRUE(FindingsAt("cache").empty());
  EXPECT_FALSE(frugal_alloc::report().has_leak()) << frugal_alloc::report().text;
}

TEST_F(InstallTest, MemoryBelongsToThePartOfItsOwnThread) {
  const frugal_alloc::Phase scope("main thread");
  std::vector<c10::DataPtr> kept;
  for (int epoch = 0; epoch < 10; ++epoch) {
    std::thread([&kept] { kept.push_back(caching::get()->allocate(3 << 20)); }).join();
    frugal_alloc::epoch_end();
  }
  EXPECT_TRUE(FindingsAt("main thread").empty());
  EXPECT_EQ(FindingsAt("").size(), 1);
}

}  // namespace
