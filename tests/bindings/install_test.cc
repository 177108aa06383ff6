#include <c10/core/Storage.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>
#include <frugal_alloc/sleep.h>
#include <frugal_alloc/torch.h>

#include <cmath>
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
    const frugal_alloc::Status status = frugal_alloc::enable();
    ASSERT_TRUE(status) << status.message();
  }
};

int64_t AllocatedBytes() { return caching::getDeviceStats(0).allocated_bytes[0].current; }

TEST(InstallRefusalTest, NothingIsReportedBeforeInstalling) {
  if (frugal_alloc::is_enabled()) GTEST_SKIP() << "installed by a test before this one";
  frugal_alloc::epoch_end();
  EXPECT_EQ(frugal_alloc::memory_stats().allocations, 0);
  const frugal_alloc::Report report = frugal_alloc::report();
  EXPECT_FALSE(report.has_leak());
  EXPECT_NE(report.text.find("not enabled"), std::string::npos) << report.text;
}

TEST(InstallRefusalTest, IsOneLineAndLeavesPyTorchAsItWas) {
  if (frugal_alloc::is_enabled()) GTEST_SKIP() << "installed by a test before this one";
  caching::CUDAAllocator* const native = caching::get();
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  const frugal_alloc::Status status = frugal_alloc::enable();
  unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_FALSE(status);
  EXPECT_NE(status.message().find("CUDA_VISIBLE_DEVICES"), std::string::npos) << status.message();
  EXPECT_EQ(status.message().find('\n'), std::string::npos);
  EXPECT_EQ(caching::get(), native);
}

TEST_F(InstallTest, MemoryIsServedAndCounted) {
  ASSERT_TRUE(frugal_alloc::is_enabled());
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

// As the end of a torch.cuda.MemPool has it, in the midst of which another thread opens a pool.
TEST_F(InstallTest, APoolThatHeldNothingGoesWhileAnotherIsOpen) {
  constexpr c10::MempoolId_t kEmpty = {0, 770};
  constexpr c10::MempoolId_t kOpen = {0, 771};
  caching::get()->createOrIncrefPool(0, kEmpty, nullptr);
  caching::get()->releasePool(0, kEmpty);
  caching::get()->beginAllocateToPool(0, kOpen, [](cudaStream_t) { return true; });
  EXPECT_NO_THROW(caching::get()->emptyCache(kEmpty));
  caching::get()->endAllocateToPool(0, kOpen);
  caching::get()->releasePool(0, kOpen);
}

TEST_F(InstallTest, TheBaseOfABlockIsToldByWhoseItIs) {
  const c10::DataPtr ours = caching::get()->allocate(kSize);
  ASSERT_TRUE(frugal_alloc::disable());
  const c10::DataPtr natives = caching::get()->allocate(kSize);
  ASSERT_TRUE(frugal_alloc::enable());
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
  ASSERT_TRUE(frugal_alloc::disable());
  EXPECT_FALSE(frugal_alloc::is_enabled());
  const c10::DataPtr natives = caching::get()->allocate(kSize);
  const int64_t before = AllocatedBytes();
  ours.clear();
  EXPECT_EQ(AllocatedBytes(), before - static_cast<int64_t>(kSize));
}

TEST_F(InstallTest, IdleMemoryIsGivenBack) {
  caching::get()->allocate(kSize);
  const int64_t before = frugal_alloc::memory_stats().reserved_bytes;
  caching::emptyCache();
  const int64_t after = frugal_alloc::memory_stats().reserved_bytes;
  EXPECT_LE(after, before - static_cast<int64_t>(kSize));
  caching::emptyCache();
  EXPECT_EQ(frugal_alloc::memory_stats().reserved_bytes, after);
}

TEST_F(InstallTest, MemoryIsKeptInPlaceWhileTheObjectLives) {
  const size_t size = size_t{64} << 20;
  const auto reserved = [] { return frugal_alloc::memory_stats().reserved_bytes; };
  caching::emptyCache();
  const int64_t before = reserved();
  {
    c10::DataPtr block = caching::get()->allocate(size);
    const frugal_alloc::KeepInPlace kept(block.get(), static_cast<int64_t>(size));
    ASSERT_TRUE(kept.status()) << kept.status().message();
    block.clear();
    caching::emptyCache();
    EXPECT_GE(reserved(), before + static_cast<int64_t>(size));
  }
  caching::emptyCache();
  EXPECT_EQ(reserved(), before);
}

TEST_F(InstallTest, MemoryIsOfCudaMallocWhileTheObjectLives) {
  const auto is_mapped = [] {
    const c10::DataPtr block = caching::get()->allocate(9);
    cudaIpcMemHandle_t handle;
    const bool opens =
        cudaIpcGetMemHandle(&handle, caching::get()->getBaseAllocation(block.get(), nullptr)) == cudaSuccess;
    static_cast<void>(cudaGetLastError());
    return !opens;
  };
  ASSERT_TRUE(is_mapped());
  {
    const frugal_alloc::CudaMalloc outer;
    ASSERT_TRUE(outer.status()) << outer.status().message();
    {
      const frugal_alloc::CudaMalloc inner;
      EXPECT_FALSE(is_mapped());
    }
    EXPECT_FALSE(is_mapped());
    std::thread([&] { EXPECT_TRUE(is_mapped()); }).join();
  }
  EXPECT_TRUE(is_mapped());
}

struct Tensor {
  c10::Storage storage_;
  c10::Storage storage() const { return storage_; }
};

Tensor MakeTensor(size_t size) {
  return {c10::Storage(c10::Storage::use_byte_size_t(), size, caching::get()->allocate(size), caching::get())};
}

TEST_F(InstallTest, MemorySleepsByTagsAndWakesWhereItWas) {
  const auto size = static_cast<int64_t>(kSize);
  const auto reserved = [] { return frugal_alloc::memory_stats().reserved_bytes; };
  std::vector<Tensor> tagged;
  {
    const frugal_alloc::Tag tag("weights");
    ASSERT_TRUE(tag.status()) << tag.status().message();
    tagged.push_back(MakeTensor(kSize));
    const frugal_alloc::Tag inner("cache");
    tagged.push_back(MakeTensor(kSize));
  }
  const Tensor other = MakeTensor(kSize);
  const Tensor retagged = MakeTensor(kSize);
  ASSERT_TRUE(frugal_alloc::retag(retagged, "weights"));
  const void* const address = retagged.storage().data();
  caching::emptyCache();
  const int64_t before = reserved();
  std::string json;
  ASSERT_TRUE(frugal_alloc::sleep({{"weights", "cache"}, {}, {"cache"}}, &json)) << frugal_last_error();
  EXPECT_LE(reserved(), before - 2 * size) << json;
  EXPECT_NE(json.find("\"copied_bytes\""), std::string::npos) << json;
  ASSERT_TRUE(frugal_alloc::wake({"weights"}));
  ASSERT_TRUE(frugal_alloc::wake());
  EXPECT_EQ(reserved(), before);
  EXPECT_EQ(retagged.storage().data(), address);
  EXPECT_FALSE(frugal_alloc::sleep({{"wieghts"}}));
}

float FirstNumberOf(const Tensor& tensor) {
  float number = 0;
  EXPECT_EQ(cudaMemcpy(&number, tensor.storage().data(), sizeof(number), cudaMemcpyDeviceToHost), cudaSuccess);
  return number;
}

TEST_F(InstallTest, WhatIsDroppedIsNaNIfPoisonIsAskedFor) {
  const float number = 4;
  const Tensor kept = MakeTensor(kSize);
  const Tensor dropped = MakeTensor(kSize);
  ASSERT_TRUE(frugal_alloc::retag(kept, "kept"));
  ASSERT_TRUE(frugal_alloc::retag(dropped, "dropped"));
  for (const Tensor* tensor : {&kept, &dropped}) {
    ASSERT_EQ(cudaMemcpy(tensor->storage().mutable_data(), &number, sizeof(number), cudaMemcpyHostToDevice),
              cudaSuccess);
  }
  frugal_alloc::SleepOptions options;
  options.tags = {"kept", "dropped"};
  options.drop = {"dropped"};
  options.poison = true;
  ASSERT_TRUE(frugal_alloc::sleep(options)) << frugal_last_error();
  ASSERT_TRUE(frugal_alloc::wake());
  EXPECT_EQ(FirstNumberOf(kept), number);
  EXPECT_TRUE(std::isnan(FirstNumberOf(dropped)));
}

TEST_F(InstallTest, InstallIsAnotherNameOfEnable) {
  ASSERT_TRUE(frugal_alloc::disable());
  ASSERT_TRUE(frugal_alloc::install());
  EXPECT_TRUE(frugal_alloc::is_enabled());
}

TEST_F(InstallTest, EachSettingCanBeAnOption) {
  frugal_alloc::Options options{"1GiB", "30s", "on",  "off", "/tmp", "/nowhere",
                                "fast", "on",  "off", "off", "",     "mapped"};
  const frugal_alloc::Status status = frugal_alloc::enable(options);
  EXPECT_TRUE(status) << status.message();
  options.self_check = "never";
  EXPECT_NE(frugal_alloc::enable(options).message().find("self_check:never"), std::string::npos);
  options = {"off", "off", "", "on", "off", "", "", "", "", "", "", "segments"};
  EXPECT_TRUE(frugal_alloc::enable(options));
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
  const frugal_alloc::Status refused = frugal_alloc::enable(options);
  EXPECT_FALSE(refused);
  EXPECT_NE(refused.message().find("memory_limit:plenty"), std::string::npos) << refused.message();
  options.memory_limit = "1GiB";
  ASSERT_TRUE(frugal_alloc::enable(options));
  EXPECT_THROW(static_cast<void>(caching::get()->allocate(size_t{2} << 30)), c10::OutOfMemoryError);
  options.memory_limit = "off";
  ASSERT_TRUE(frugal_alloc::enable(options));
  EXPECT_NE(caching::get()->allocate(size_t{2} << 30).get(), nullptr);
}

TEST_F(InstallTest, FiguresHaveTheirNames) {
  const frugal_alloc::MemoryStats before = frugal_alloc::memory_stats();
  const c10::DataPtr block = caching::get()->allocate(kSize + 1);
  const frugal_alloc::MemoryStats after = frugal_alloc::memory_stats();
  EXPECT_EQ(after.allocated_bytes - before.allocated_bytes, static_cast<int64_t>(kSize + 512));
  EXPECT_EQ(after.requested_bytes - before.requested_bytes, static_cast<int64_t>(kSize + 1));
  EXPECT_EQ(after.blocks - before.blocks, 1);
  EXPECT_EQ(after.allocations - before.allocations, 1);
  EXPECT_GE(after.reserved_bytes, after.allocated_bytes);
  EXPECT_EQ(frugal_alloc::memory_stats(77).allocations, 0);
}

// Each test below leaks into a part of its own, since epochs are the process's.
std::vector<frugal_alloc::Verdict> FindingsAt(const std::string& site) {
  std::vector<frugal_alloc::Verdict> findings;
  for (const frugal_alloc::Verdict& finding : frugal_alloc::report().verdicts) {
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
  const std::vector<frugal_alloc::Verdict> findings = FindingsAt("validation");
  ASSERT_EQ(findings.size(), 1);
  EXPECT_EQ(findings[0].kind, frugal_alloc::Verdict::Kind::kLeak);
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
