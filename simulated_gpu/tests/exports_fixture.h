// The simulated CUDA libraries as a program meets them: loaded by name, called through C.

#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "gtest/gtest.h"
#include "simulated_gpu/machine/control.h"

namespace frugal::sim {

inline constexpr size_t kPage = 2 << 20;
inline constexpr size_t kMemory = size_t{1} << 30;
inline constexpr size_t kContext = size_t{64} << 20;
inline const std::string kFolder = "simulated_gpu/exports/";

inline void* Load(const char* library) {
  // Read by the library while it is loaded.
  setenv("FRUGAL_SIM_MEMORY", std::to_string(kMemory).c_str(), 1);
  setenv("FRUGAL_SIM_CONTEXT", std::to_string(kContext).c_str(), 1);
  setenv("FRUGAL_SIM_GPUS", "2", 1);
  setenv("FRUGAL_SIM_KERNEL_NS", "1000", 1);
  unsetenv("CUDA_VISIBLE_DEVICES");
  void* loaded = dlopen((kFolder + library).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) std::abort();
  return loaded;
}

inline void* Driver() {
  static void* const library = Load("libcuda.so.1");
  return library;
}

inline void* Runtime() {
  static void* const library = (Driver(), Load("libcudart.so.13"));
  return library;
}

template <typename Function>
Function* Find(void* library, const char* name, Function*) {
  void* found = dlsym(library, name);
  if (found == nullptr) ADD_FAILURE() << name << " is not exported";
  return reinterpret_cast<Function*>(found);
}

#define DRIVER(name) Find(Driver(), #name, static_cast<decltype(&name)>(nullptr))
#define RUNTIME(name) Find(Runtime(), #name, static_cast<decltype(&name)>(nullptr))
// Under the name that cuda.h's macros give it.
#define VERSIONED(name) DRIVER_OF(name)
#define DRIVER_OF(name) DRIVER(name)

class ExportsTest : public ::testing::Test {
 protected:
  ExportsTest() {
    DRIVER(frugal_sim_set_clock)(0);
    DRIVER(cuInit)(0);
    RUNTIME(cudaSetDevice)(0);
    DRIVER(frugal_sim_reset_counters)();
  }
  ~ExportsTest() override {
    DRIVER(frugal_sim_set_faults)("");
    RUNTIME(cudaGetLastError)();
  }

  static uint64_t Calls(const char* kind) { return DRIVER(frugal_sim_calls)(kind); }
  static cudaStream_t NewStream() {
    cudaStream_t stream = nullptr;
    EXPECT_EQ(RUNTIME(cudaStreamCreateWithFlags)(&stream, cudaStreamNonBlocking), cudaSuccess);
    return stream;
  }
  static CUmemAllocationProp OnGpu(int gpu) {
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = gpu;
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return properties;
  }
};

}  // namespace frugal::sim
