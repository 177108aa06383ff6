// Kernels: how a program registers and launches them.

#include <cuda_runtime_api.h>

#include <deque>
#include <mutex>

#include "simulated_gpu/exports/device_attributes.h"
#include "simulated_gpu/exports/kernels.h"
#include "simulated_gpu/exports/runtime.h"

namespace frugal::sim {

namespace {

// The kernel's module takes its memory as it is launched for the first time.
Error LoadModuleOf(Machine& machine, const void* kernel) {
  if (!machine.driver_memory().is_on()) return Error::kSuccess;
  return machine.driver_memory().Load(ThisThread().gpu, Kernels::Table().ModuleOf(kernel));
}

cudaError_t Launch(const void* kernel, void** arguments, cudaStream_t stream,
                   const char* function = __builtin_FUNCTION()) {
  return OnStream(
      stream,
      [&](Machine& machine, Stream& found) -> Error {
        RETURN_IF_ERROR(LoadModuleOf(machine, kernel));
        return machine.streams().Launch(found, Kernels::Table().MakeWork(kernel, arguments, machine.configuration()));
      },
      function);
}

// What <<<...>>> leaves for the stub of the kernel that it calls.
struct CallConfiguration {
  dim3 grid;
  dim3 block;
  size_t shared_memory = 0;
  cudaStream_t stream = nullptr;
};
thread_local CallConfiguration call_configuration;

}  // namespace

extern "C" {

// --- Launches.

cudaError_t cudaLaunchKernel(const void* kernel, dim3, dim3, void** arguments, size_t, cudaStream_t stream) {
  return Launch(kernel, arguments, stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* configuration, const void* kernel, void** arguments) {
  return Launch(kernel, arguments, configuration->stream);
}

cudaError_t cudaLaunchCooperativeKernel(const void* kernel, dim3, dim3, void** arguments, size_t, cudaStream_t stream) {
  return Launch(kernel, arguments, stream);
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3, dim3, void** arguments, size_t, cudaStream_t stream) {
  return Launch(kernel, arguments, stream);
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_memory, cudaStream_t stream) {
  call_configuration = {grid, block, shared_memory, stream};
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_memory, void* stream) {
  *grid = call_configuration.grid;
  *block = call_configuration.block;
  *shared_memory = call_configuration.shared_memory;
  *static_cast<cudaStream_t*>(stream) = call_configuration.stream;
  return cudaSuccess;
}

// --- Registration, by code that the CUDA compiler puts into each program.

// A module of its own for each, named by its handle.
void** __cudaRegisterFatBinary(void* binary) {
  static std::mutex mutex;
  static auto* handles = new std::deque<void*>;
  std::lock_guard lock(mutex);
  return &handles->emplace_back(binary);
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
void __cudaRegisterManagedVar(void**, void**, char*, const char*, int, size_t, int, int) {}
char __cudaInitModule(void**) { return 1; }

void __cudaRegisterFunction(void** module, const char* host, char*, const char* name, int, void*, void*, void*, void*,
                            int*) {
  Kernels::Table().Register(host, name);
  // A program has 100,000 kernels: which module they are in is kept only where it matters.
  if (TheConfiguration().driver_memory.on) Kernels::Table().RegisterModule(host, module);
}

// --- A kernel stands for its address on the host.

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  return ToResult(Give(kernel, static_cast<cudaKernel_t>(const_cast<void*>(host))));
}

cudaError_t cudaGetKernel(cudaKernel_t* kernel, const void* host) { return __cudaGetKernel(kernel, host); }

cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function, const void* host) {
  return ToResult(Give(function, static_cast<cudaFunction_t>(const_cast<void*>(host))));
}

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaFuncSetCacheConfig(const void*, cudaFuncCache) { return cudaSuccess; }
cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t, cudaFuncAttribute, int, int) { return cudaSuccess; }

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int, size_t) {
  return ToResult(Give(blocks, 2));
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int, size_t, unsigned) {
  return ToResult(Give(blocks, 2));
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 32;
  attributes->binaryVersion = TheConfiguration().model.CompiledCapability();
  attributes->ptxVersion = attributes->binaryVersion;
  attributes->maxDynamicSharedSizeBytes = 48 << 10;
  return cudaSuccess;
}

// --- The local memory of all threads that can be resident, which the driver makes room for at once.

cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
  if (limit != cudaLimitStackSize) return cudaErrorNotSupported;
  return OnCurrentGpu([&](Machine& machine, int gpu) {
    return machine.driver_memory().MakeLocalMemory(gpu, LocalMemory(machine, value));
  });
}

// --- Variables of kernels, which nothing reads.

cudaError_t cudaGetSymbolAddress(void** pointer, const void*) {
  static char anything[1 << 20];
  *pointer = anything;
  return cudaSuccess;
}

cudaError_t cudaMemcpyToSymbol(const void*, const void*, size_t, size_t, cudaMemcpyKind) { return cudaSuccess; }

cudaError_t cudaMemcpyToSymbolAsync(const void*, const void*, size_t, size_t, cudaMemcpyKind, cudaStream_t) {
  return cudaSuccess;
}

}  // extern "C"

}  // namespace frugal::sim
