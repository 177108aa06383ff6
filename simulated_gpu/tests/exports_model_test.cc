// A simulated GPU that is said to be of a certain model, as programs ask about it.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdlib>

#include "gtest/gtest.h"
#include "simulated_gpu/tests/exports_fixture.h"

namespace frugal::sim {
namespace {

// Before the library is loaded, which reads it.
const int kModelIsSet = setenv(
    "FRUGAL_SIM_GPU", "name=NVIDIA GeForce RTX 4090,capability=8.9,multiprocessors=128,l2=72MiB,bus_width=384", 1);

TEST_F(ExportsTest, PropertiesAreTheModels) {
  ASSERT_EQ(kModelIsSet, 0);
  cudaDeviceProp properties;
  ASSERT_EQ(RUNTIME(cudaGetDeviceProperties)(&properties, 0), cudaSuccess);
  EXPECT_STREQ(properties.name, "NVIDIA GeForce RTX 4090");
  EXPECT_EQ(properties.major, 8);
  EXPECT_EQ(properties.minor, 9);
  EXPECT_EQ(properties.multiProcessorCount, 128);
  EXPECT_EQ(properties.l2CacheSize, 72 << 20);
  EXPECT_EQ(properties.sharedMemPerBlockOptin, size_t{99} << 10);
  EXPECT_EQ(properties.sharedMemPerMultiprocessor, size_t{100} << 10);
  EXPECT_EQ(properties.maxThreadsPerMultiProcessor, 1536);
  EXPECT_EQ(properties.maxBlocksPerMultiProcessor, 24);
  EXPECT_EQ(properties.memoryBusWidth, 384);
  EXPECT_EQ(properties.totalGlobalMem, kMemory);
}

TEST_F(ExportsTest, DriverSaysTheSameOfTheModel) {
  char name[64];
  ASSERT_EQ(DRIVER(cuDeviceGetName)(name, sizeof(name), 0), CUDA_SUCCESS);
  EXPECT_STREQ(name, "NVIDIA GeForce RTX 4090");
  int major = 0;
  int minor = 0;
  // By its type, since the header calls it deprecated.
  auto* capability =
      Find(Driver(), "cuDeviceComputeCapability", static_cast<CUresult (*)(int*, int*, CUdevice)>(nullptr));
  ASSERT_EQ(capability(&major, &minor, 0), CUDA_SUCCESS);
  EXPECT_EQ(major * 10 + minor, 89);
  int threads = 0;
  ASSERT_EQ(DRIVER(cuDeviceGetAttribute)(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 0),
            CUDA_SUCCESS);
  EXPECT_EQ(threads, 1536);
}

TEST_F(ExportsTest, KernelsAreThoseOfTheModelsGeneration) {
  cudaFuncAttributes attributes;
  auto* ask =
      Find(Runtime(), "cudaFuncGetAttributes", static_cast<cudaError_t (*)(cudaFuncAttributes*, const void*)>(nullptr));
  ASSERT_EQ(ask(&attributes, nullptr), cudaSuccess);
  EXPECT_EQ(attributes.ptxVersion, 86);
  EXPECT_EQ(attributes.binaryVersion, 86);
}

TEST_F(ExportsTest, GreenContextsDivideTheModelsMultiprocessors) {
  CUdevResource all;
  ASSERT_EQ(DRIVER(cuDeviceGetDevResource)(0, &all, CU_DEV_RESOURCE_TYPE_SM), CUDA_SUCCESS);
  EXPECT_EQ(all.sm.smCount, 128u);
  CUdevResource part;
  CUdevResource rest;
  unsigned groups = 1;
  ASSERT_EQ(DRIVER(cuDevSmResourceSplitByCount)(&part, &groups, &all, &rest, 0, 5), CUDA_SUCCESS);
  EXPECT_EQ(part.sm.smCount, 6u);
  EXPECT_EQ(rest.sm.smCount, 122u);
}

}  // namespace
}  // namespace frugal::sim
