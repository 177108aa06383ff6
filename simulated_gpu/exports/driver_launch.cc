// The driver's modules and kernels, as Triton and PyTorch's compiler use them: kernels take time and compute nothing.

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <utility>

#include "simulated_gpu/exports/device_attributes.h"
#include "simulated_gpu/exports/driver.h"

namespace frugal::sim {

namespace {

// All functions are one: nothing in a module is ever looked at.
const auto kFunction = reinterpret_cast<CUfunction>(0x30);

CUresult Launch(CUstream stream, const char* function = __builtin_FUNCTION()) {
  return OnStream(
      stream,
      [](Machine& machine, Stream& found) {
        return machine.streams().Launch(found,
                                        {WorkKind::kKernel, machine.configuration().DurationOf(Bytes(0)), nullptr});
      },
      function);
}

// A module that is loaded by name takes its memory at once.
CUresult LoadModule(CUmodule* module) {
  if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
  static std::atomic<uintptr_t> next{0x20};
  return OnCurrentGpu([&](Machine& machine, int gpu) -> Error {
    auto* const loaded = reinterpret_cast<CUmodule>(next++);
    RETURN_IF_ERROR(machine.driver_memory().Load(gpu, loaded));
    *module = loaded;
    return Error::kSuccess;
  });
}

}  // namespace

extern "C" {

CUresult cuModuleLoad(CUmodule* module, const char*) { return LoadModule(module); }
CUresult cuModuleLoadData(CUmodule* module, const void*) { return LoadModule(module); }
CUresult cuModuleLoadDataEx(CUmodule* module, const void*, unsigned, CUjit_option*, void**) {
  return LoadModule(module);
}
CUresult cuModuleUnload(CUmodule module) {
  TheMachine().driver_memory().Unload(module);
  return CUDA_SUCCESS;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  if (limit != CU_LIMIT_STACK_SIZE) return CUDA_ERROR_NOT_SUPPORTED;
  return OnCurrentGpu([&](Machine& machine, int gpu) {
    return machine.driver_memory().MakeLocalMemory(gpu, LocalMemory(machine, value));
  });
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char*) {
  return ToResult(Give(function, kFunction));
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction) {
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = 32;
      break;
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = 1024;
      break;
    default:
      *value = 0;
  }
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; }
CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) { return CUDA_SUCCESS; }

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction, int, size_t) {
  return ToResult(Give(blocks, 2));
}

CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction, const CUlaunchConfig*) {
  return ToResult(Give(clusters, 8));
}

CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        CUstream stream, void**, void**) {
  return Launch(stream);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* configuration, CUfunction, void**, void**) {
  return Launch(configuration->hStream);
}

CUresult cuLaunchCooperativeKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                   CUstream stream, void**) {
  return Launch(stream);
}

CUresult cuMemsetD32Async(CUdeviceptr pointer, unsigned value, size_t count, CUstream stream) {
  return OnStream(stream, [&](Machine& machine, Stream& found) {
    const auto fill = [=] {
      auto* words = reinterpret_cast<unsigned*>(pointer);
      for (size_t i = 0; i < count; ++i) words[i] = value;
    };
    const Bytes size = ToBytes(count * sizeof(unsigned));
    Work work{WorkKind::kFill, machine.configuration().DurationOf(size),
              machine.configuration().moves(size) ? std::function<void()>(fill) : nullptr};
    if (machine.configuration().wants_uses()) {
      work.name = "memset";
      work.uses = {{Address(pointer), size, /*writes=*/true}};
    }
    return machine.streams().Enqueue(found, std::move(work));
  });
}

// A description of memory for kernels, which compute nothing here.
CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                                const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                                CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  if (map == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *map = CUtensorMap();
  return CUDA_SUCCESS;
}

}  // extern "C"

}  // namespace frugal::sim
