// Copies and fills of device memory that are larger than what is kept, and a driver that lets programs go beyond.

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include <cstdlib>

#include "gtest/gtest.h"
#include "simulated_gpu/tests/exports_fixture.h"

namespace frugal::sim {
namespace {

constexpr size_t kKept = size_t{64} << 10;

// Before the library is loaded, which reads them.
const int kKeepIsSet = setenv("FRUGAL_SIM_KEEP", "64KiB", 1) | setenv("FRUGAL_SIM_BEYOND", "1", 1);

class KeptTest : public ExportsTest {
 protected:
  KeptTest() {
    EXPECT_EQ(kKeepIsSet, 0);
    EXPECT_EQ(RUNTIME(cudaMalloc)(reinterpret_cast<void**>(&device_), kPage), cudaSuccess);
    host_ = static_cast<char*>(
        mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, /*offset=*/0));
    for (size_t i = 0; i < kPage; ++i) host_[i] = 'h';
  }
  ~KeptTest() override {
    RUNTIME(cudaFree)(device_);
    munmap(host_, kPage);
  }

  char* device_ = nullptr;
  char* host_ = nullptr;
};

TEST_F(KeptTest, WhatIsLargeMovesNothing) {
  EXPECT_EQ(DRIVER(frugal_sim_kept_bytes)(), kKept);
  ASSERT_EQ(RUNTIME(cudaMemset)(device_, 'x', kKept + 1), cudaSuccess);
  EXPECT_EQ(device_[0], 0);
  ASSERT_EQ(RUNTIME(cudaMemcpy)(device_, host_, kKept + 1, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(device_[0], 0);
  ASSERT_EQ(VERSIONED(cuMemsetD32Async)(reinterpret_cast<CUdeviceptr>(device_), 7, kKept, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(device_[0], 0);
}

TEST_F(KeptTest, WhatIsLargeIsZerosOnTheHost) {
  const size_t size = kKept + 3;
  ASSERT_EQ(RUNTIME(cudaMemcpy)(host_ + 5, device_, size, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(host_[4], 'h');
  for (size_t i = 5; i < 5 + size; ++i) ASSERT_EQ(host_[i], 0) << i;
  EXPECT_EQ(host_[5 + size], 'h');
}

TEST_F(KeptTest, CopiesOnTheHostMoveAsAlways) {
  char* other = static_cast<char*>(
      mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, /*offset=*/0));
  ASSERT_EQ(RUNTIME(cudaMemcpy)(other, host_, kPage, cudaMemcpyHostToHost), cudaSuccess);
  EXPECT_EQ(other[kPage - 1], 'h');
  munmap(other, kPage);
}

TEST_F(KeptTest, OneWhoPlansByTheDriversFreeMemoryGoesBeyondToo) {
  void* large = nullptr;
  ASSERT_EQ(RUNTIME(cudaMalloc)(&large, 2 * kMemory), cudaSuccess);
  size_t free = 1;
  size_t total = 0;
  ASSERT_EQ(RUNTIME(cudaMemGetInfo)(&free, &total), cudaSuccess);
  EXPECT_EQ(free, 0u);
  EXPECT_EQ(total, kMemory);
  ASSERT_EQ(VERSIONED(cuMemGetInfo)(&free, &total), CUDA_SUCCESS);
  EXPECT_EQ(free, kMemory);
  EXPECT_EQ(DRIVER(frugal_sim_memory_used)(0), 2 * kMemory + kPage);
  ASSERT_EQ(RUNTIME(cudaFree)(large), cudaSuccess);
}

}  // namespace
}  // namespace frugal::sim
