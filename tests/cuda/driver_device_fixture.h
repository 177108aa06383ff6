// A DriverDevice on the simulated libcuda.so.1, for the tests of what that device alone promises.

#pragma once

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "cuda/driver_device.h"
#include "gtest/gtest.h"
#include "simulated_gpu/machine/control.h"

namespace frugal {

inline constexpr uint64_t kSecond = 1'000'000'000;

// The simulated driver in the place of the real one: a library that is loaded already is found by its name alone.
template <typename Function>
Function* InSimulation(Function*, const char* name) {
  static void* const runtime = [] {
    setenv("FRUGAL_SIM_GPUS", "2", 1);
    setenv("FRUGAL_SIM_MEMORY", "1073741824", 1);
    dlopen("simulated_gpu/exports/libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    return dlopen("simulated_gpu/exports/libcudart.so.13", RTLD_NOW | RTLD_GLOBAL);
  }();
  void* const found = runtime == nullptr ? nullptr : dlsym(RTLD_DEFAULT, name);
  EXPECT_NE(found, nullptr) << name << ": " << dlerror();
  return reinterpret_cast<Function*>(found);
}

#define SIMULATED(function) InSimulation(static_cast<decltype(&function)>(nullptr), #function)

// Time goes on only as the tests say, and never back.
inline uint64_t Later() {
  static uint64_t now = 0;
  return now += kSecond;
}

class DriverDeviceTest : public testing::Test {
 protected:
  DriverDeviceTest() {
    SIMULATED(frugal_sim_set_clock)(Later());
    absl::StatusOr<std::unique_ptr<DriverDevice>> opened = DriverDevice::Open(0);
    EXPECT_TRUE(opened.ok()) << opened.status();
    device_ = *std::move(opened);
  }
  ~DriverDeviceTest() override { SIMULATED(frugal_sim_set_faults)(""); }

  Stream NewStream() {
    cudaStream_t stream = nullptr;
    EXPECT_EQ(SIMULATED(cudaStreamCreate)(&stream), cudaSuccess);
    return Stream{reinterpret_cast<uint64_t>(stream)};
  }
  static cudaStream_t Raw(Stream stream) { return reinterpret_cast<cudaStream_t>(stream.id); }

  static void FailNext(const std::string& plan) { ASSERT_EQ(SIMULATED(frugal_sim_set_faults)(plan.c_str()), 0); }

  // A range of `pages`, mapped and accessible.
  Address MappedRange(int pages) {
    const Bytes size = kPageSize * pages;
    const Address range = *device_->Reserve(size);
    for (int i = 0; i < pages; ++i) {
      const PhysicalHandle handle = *device_->Create(kPageSize);
      EXPECT_TRUE(device_->Map(range + kPageSize * i, kPageSize, handle).ok());
      EXPECT_TRUE(device_->Release(handle).ok());
    }
    EXPECT_TRUE(device_->SetAccess(range, size).ok());
    return range;
  }

  std::unique_ptr<DriverDevice> device_;
};

}  // namespace frugal
