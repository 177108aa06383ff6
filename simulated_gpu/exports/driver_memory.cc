// The driver's memory: virtual memory management and allocation.

#include <cuda.h>

#include <vector>

#include "simulated_gpu/exports/driver.h"

namespace frugal::sim {

namespace {

VirtualMemory& Memory() { return TheMachine().virtual_memory(); }

VirtualMemory::Access ToAccess(CUmemAccess_flags flags) {
  if (flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) return VirtualMemory::Access::kReadWrite;
  if (flags == CU_MEM_ACCESS_FLAGS_PROT_READ) return VirtualMemory::Access::kRead;
  return VirtualMemory::Access::kNone;
}

// Of what an allocation is asked for, what the simulated GPU cannot give.
Error CheckProperties(const CUmemAllocationProp& properties) {
  if (properties.type != CU_MEM_ALLOCATION_TYPE_PINNED) return Error::kInvalidValue;
  if (properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE) return Error::kNotSupported;
  if (!TheMachine().HasGpu(properties.location.id)) return Error::kInvalidDevice;
  constexpr unsigned kKnown = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return (static_cast<unsigned>(properties.requestedHandleTypes) & ~kKnown) == 0 ? Error::kSuccess
                                                                                 : Error::kNotSupported;
}

}  // namespace

extern "C" {

// --- Virtual memory management.

CUresult cuMemAddressReserve(CUdeviceptr* pointer, size_t size, size_t alignment, CUdeviceptr wish,
                             unsigned long long flags) {
  const InDriver scope;
  if (pointer == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  Address start;
  const Error error = Memory().Reserve(ToBytes(size), ToBytes(alignment), Address(wish), &start);
  if (error == Error::kSuccess) *pointer = start.value();
  return ToResult(error);
}

CUresult cuMemAddressFree(CUdeviceptr pointer, size_t size) {
  const InDriver scope;
  return ToResult(Memory().Unreserve(Address(pointer), ToBytes(size)));
}

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags) {
  if (granularity == nullptr || properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!Memory().supported()) return CUDA_ERROR_NOT_SUPPORTED;
  *granularity = static_cast<size_t>(kPageSize.count());
  return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp* properties,
                     unsigned long long flags) {
  const InDriver scope;
  if (handle == nullptr || properties == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (const Error error = CheckProperties(*properties); error != Error::kSuccess) return ToResult(error);
  VirtualMemory::HandleId id = 0;
  const Error error = Memory().Create(properties->location.id, ToBytes(size), &id);
  if (error == Error::kSuccess) *handle = id;
  return ToResult(error);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  const InDriver scope;
  return ToResult(Memory().Release(handle));
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* pointer) {
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  VirtualMemory::HandleId id = 0;
  const Error error = Memory().Retain(Address(pointer), &id);
  if (error == Error::kSuccess) *handle = id;
  return ToResult(error);
}

CUresult cuMemMap(CUdeviceptr pointer, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  const InDriver scope;
  // The driver, too, maps handles from their beginning only.
  if (offset != 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return ToResult(Memory().Map(Address(pointer), ToBytes(size), handle));
}

CUresult cuMemUnmap(CUdeviceptr pointer, size_t size) {
  const InDriver scope;
  TheMachine().streams().RunDue();
  return ToResult(Memory().Unmap(Address(pointer), ToBytes(size)));
}

CUresult cuMemSetAccess(CUdeviceptr pointer, size_t size, const CUmemAccessDesc* descriptions, size_t count) {
  const InDriver scope;
  if (descriptions == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  std::vector<VirtualMemory::GpuAccess> accesses;
  for (size_t i = 0; i < count; ++i) {
    if (descriptions[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
    accesses.push_back({descriptions[i].location.id, ToAccess(descriptions[i].flags)});
  }
  return ToResult(Memory().SetAccess(Address(pointer), ToBytes(size), accesses));
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr pointer) {
  if (flags == nullptr || location == nullptr || location->type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  VirtualMemory::Access access = VirtualMemory::Access::kNone;
  const Error error = Memory().GetAccess(Address(pointer), location->id, &access);
  if (error == Error::kSuccess) *flags = ToAccessFlags(access);
  return ToResult(error);
}

CUresult cuMemExportToShareableHandle(void* shareable, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags) {
  if (shareable == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  return ToResult(Memory().Export(handle, static_cast<int*>(shareable)));
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* shareable,
                                        CUmemAllocationHandleType type) {
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  VirtualMemory::HandleId id = 0;
  const Error error = Memory().Import(static_cast<int>(reinterpret_cast<uintptr_t>(shareable)), &id);
  if (error == Error::kSuccess) *handle = id;
  return ToResult(error);
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties, CUmemGenericAllocationHandle handle) {
  if (properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Bytes size;
  int gpu = 0;
  if (const Error error = Memory().Describe(handle, &size, &gpu); error != Error::kSuccess) return ToResult(error);
  *properties = {};
  properties->type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties->location.id = gpu;
  return CUDA_SUCCESS;
}

// --- Allocation.

CUresult cuMemAlloc(CUdeviceptr* pointer, size_t size) {
  if (pointer == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
  return OutsideCapture([&](Machine& machine, int gpu) {
    Address start;
    const Error error = machine.segments().Malloc(gpu, ToBytes(size), Segments::Kind::kDevice, &start);
    *pointer = start.value();
    return error;
  });
}

CUresult cuMemFree(CUdeviceptr pointer) {
  return OutsideCapture([&](Machine& machine, int) {
    machine.streams().RunDue();
    // Without a wait: of this one CUDA 13 only says that it may.
    return machine.segments().Free(Address(pointer));
  });
}

CUresult cuMemHostAlloc(void** pointer, size_t size, unsigned) {
  if (pointer == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
  return OutsideCapture([&](Machine& machine, int) { return machine.AllocateHost(ToBytes(size), pointer); });
}

CUresult cuMemFreeHost(void* pointer) {
  return OutsideCapture([&](Machine& machine, int gpu) {
    machine.streams().of(gpu).Wait();
    return machine.host_memory().Free(pointer);
  });
}

CUresult cuMemGetInfo(size_t* free, size_t* total) {
  return OnCurrentGpu([&](Machine& machine, int gpu) -> Error {
    Bytes free_bytes;
    Bytes total_bytes;
    const Error error = machine.GetMemoryInfo(gpu, &free_bytes, &total_bytes);
    if (error != Error::kSuccess) return error;
    // Whoever plans by what is free would refuse by itself what succeeds here.
    if (machine.configuration().beyond) free_bytes = total_bytes;
    *free = static_cast<size_t>(free_bytes.count());
    *total = static_cast<size_t>(total_bytes.count());
    return Error::kSuccess;
  });
}

}  // extern "C"

}  // namespace frugal::sim
