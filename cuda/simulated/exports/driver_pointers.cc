// What a pointer is, as the driver says it, and which GPU reaches which other's memory.

#include <cuda.h>

#include <optional>

#include "cuda/simulated/exports/driver.h"

namespace frugal::sim {

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
  if (data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Machine& machine = TheMachine();
  const auto allocation = machine.FindAllocation(Address(pointer));
  if (!allocation && !machine.host_memory().Contains(Address(pointer).pointer())) return CUDA_ERROR_INVALID_VALUE;
  const auto give = [data](auto value) {
    *static_cast<decltype(value)*>(data) = value;
    return CUDA_SUCCESS;
  };
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return give(ContextOf(allocation ? allocation->gpu : ThisThread().gpu));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return give(allocation ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      return give(pointer);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return give(allocation ? allocation->gpu : 0);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return give(static_cast<int>(allocation && allocation->kind == Segments::Kind::kManaged));
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return give(allocation ? allocation->start.value() : pointer);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return give(allocation ? static_cast<size_t>(allocation->size.count()) : size_t{0});
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return give(1);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      // Of the current context's GPU.
      return give(static_cast<unsigned>(ToAccessFlags(machine.AccessOf(ThisThread().gpu, Address(pointer)))));
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

}  // extern "C"

namespace {

// What cuPointerGetAttributes says of a pointer that CUDA does not know.
bool SetToNothing(void* data, CUpointer_attribute attribute) {
  const auto give = [data](auto value) {
    *static_cast<decltype(value)*>(data) = value;
    return true;
  };
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return give(CUcontext{nullptr});
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return give(0);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return give(-2);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return give(CUdeviceptr{0});
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return give(size_t{0});
    default:
      return false;
  }
}

}  // namespace

extern "C" {

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** data, CUdeviceptr pointer) {
  if (count == 0 || attributes == nullptr || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Machine& machine = TheMachine();
  const bool known =
      machine.FindAllocation(Address(pointer)) || machine.host_memory().Contains(Address(pointer).pointer());
  for (unsigned i = 0; i < count; ++i) {
    if (data[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
    // Unlike cuPointerGetAttribute this is no error for a pointer that is not CUDA's.
    if (!known && !SetToNothing(data[i], attributes[i])) return CUDA_ERROR_NOT_SUPPORTED;
    if (!known) continue;
    if (const CUresult result = cuPointerGetAttribute(data[i], attributes[i], pointer); result != CUDA_SUCCESS) {
      return result;
    }
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
