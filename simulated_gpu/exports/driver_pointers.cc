// What a pointer is, as the driver says it, and which GPU reaches which other's memory.

#include <cuda.h>

#include "simulated_gpu/exports/driver.h"

namespace frugal::sim {

namespace {

bool IsKnown(CUdeviceptr pointer) {
  Machine& machine = TheMachine();
  return machine.FindAllocation(Address(pointer)) || machine.host_memory().Contains(Address(pointer).pointer());
}

// Of a pointer that CUDA does not know: nothing, as cuPointerGetAttributes says it.
CUresult GiveAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr pointer) {
  Machine& machine = TheMachine();
  const bool known = IsKnown(pointer);
  const auto allocation = machine.FindAllocation(Address(pointer));
  const auto segment = machine.segments().Find(Address(pointer));
  const auto give = [data](auto value) {
    *static_cast<decltype(value)*>(data) = value;
    return CUDA_SUCCESS;
  };
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return give(known ? ContextOf(allocation ? allocation->gpu : ThisThread().gpu) : nullptr);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return give(allocation ? int{CU_MEMORYTYPE_DEVICE} : known ? int{CU_MEMORYTYPE_HOST} : 0);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      return give(known ? pointer : CUdeviceptr{0});
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return give(allocation ? allocation->gpu : known ? 0 : -2);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      // As cudaIpcGetMemHandle: not what is mapped, managed or another process's.
      return give(static_cast<int>(segment && segment->kind == Segments::Kind::kDevice));
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return give(static_cast<int>(allocation && allocation->kind == Segments::Kind::kManaged));
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return give(allocation ? CUdeviceptr{allocation->start.value()} : known ? pointer : CUdeviceptr{0});
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return give(allocation ? static_cast<size_t>(allocation->size.count()) : size_t{0});
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return give(known ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      // Of the current context's GPU.
      return give(static_cast<unsigned>(ToAccessFlags(machine.AccessOf(ThisThread().gpu, Address(pointer)))));
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

}  // namespace

extern "C" {

// --- Pointers.

CUresult cuMemGetAddressRange(CUdeviceptr* base, size_t* size, CUdeviceptr pointer) {
  const auto allocation = TheMachine().FindAllocation(Address(pointer));
  if (!allocation) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = allocation->start.value();
  if (size != nullptr) *size = static_cast<size_t>(allocation->size.count());
  return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr pointer) {
  if (data == nullptr || !IsKnown(pointer)) return CUDA_ERROR_INVALID_VALUE;
  return GiveAttribute(data, attribute, pointer);
}

// Unlike of the function above it is no error that a pointer is not CUDA's.
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** data, CUdeviceptr pointer) {
  if (count == 0 || attributes == nullptr || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    if (data[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult result = GiveAttribute(data[i], attributes[i], pointer); result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

// --- Peers.

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return OnCurrentGpu([&](Machine& machine, int gpu) -> Error {
    Context* found = nullptr;
    RETURN_IF_ERROR(FindContext(peer, "cuCtxEnablePeerAccess", &found));
    if (found->gpu() == gpu) return Error::kInvalidContext;
    return machine.segments().EnablePeer(gpu, found->gpu());
  });
}

CUresult cuCtxDisablePeerAccess(CUcontext peer) {
  return OnCurrentGpu([&](Machine& machine, int gpu) -> Error {
    Context* found = nullptr;
    RETURN_IF_ERROR(FindContext(peer, "cuCtxDisablePeerAccess", &found));
    return machine.segments().DisablePeer(gpu, found->gpu());
  });
}

}  // extern "C"

}  // namespace frugal::sim
