#include <c10/cuda/CUDACachingAllocator.h>
#include <frugal_alloc/torch.h>

#include <cstdlib>
#include <string>

#include "gtest/gtest.h"

// Exported by libc10_cuda, but in no header: libtorch_cuda sets it, and this program does without libtorch_cuda.
namespace c10::cuda::_internal {
void setHasPrimaryContext(bool (*has_primary_context)(signed char device));
}

namespace {

namespace caching = c10::cuda::CUDACachingAllocator;

constexpr size_t kSize = 10 << 20;

class InstallTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    c10::cuda::_internal::setHasPrimaryContext([](signed char) { return true; });
    caching::init(1);
  }
  void SetUp() override {
    const frugal_alloc::Status status = frugal_alloc::install();
    ASSERT_TRUE(status) << status.message();
  }
};

int64_t AllocatedBytes() { return caching::getDeviceStats(0).allocated_bytes[0].current; }

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

TEST_F(InstallTest, OutOfMemoryIsC10sError) {
  EXPECT_THROW(static_cast<void>(caching::get()->allocate(size_t{1} << 40)), c10::OutOfMemoryError);
}

}  // namespace
