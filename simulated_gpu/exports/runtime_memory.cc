// The runtime's memory: of the GPU, of the host, and pools of it; and what a pointer is.

#include <cuda_runtime_api.h>

#include <optional>

#include "simulated_gpu/exports/runtime.h"

namespace frugal::sim {

namespace {

Error Allocate(Machine& machine, int gpu, size_t size, Segments::Kind kind, void** pointer) {
  if (pointer == nullptr) return Error::kInvalidValue;
  Address start;
  const Error error = machine.segments().Malloc(gpu, ToBytes(size), kind, &start);
  *pointer = start.pointer();
  return error;
}

}  // namespace

extern "C" {

// --- Of the GPU.

cudaError_t cudaMalloc(void** pointer, size_t size) {
  return OutsideCapture(
      [&](Machine& machine, int gpu) { return Allocate(machine, gpu, size, Segments::Kind::kDevice, pointer); });
}

cudaError_t cudaMallocManaged(void** pointer, size_t size, unsigned) {
  return OutsideCapture(
      [&](Machine& machine, int gpu) { return Allocate(machine, gpu, size, Segments::Kind::kManaged, pointer); });
}

// What is managed counts as the GPU's in whole, wherever it is prefetched to; arguments differ between CUDA 12 and 13.
cudaError_t cudaMemPrefetchAsync(const void* pointer, size_t, cudaMemLocation, unsigned, cudaStream_t) {
  return OnCurrentGpu([&](Machine& machine, int) {
    const std::optional<Segments::Segment> segment = machine.segments().Find(Address(pointer));
    const bool managed = segment && segment->kind == Segments::Kind::kManaged;
    return managed ? Error::kSuccess : Error::kInvalidValue;
  });
}

cudaError_t cudaFree(void* pointer) {
  // Programs free nothing so that a context is made.
  if (pointer == nullptr) return OnCurrentGpu([](Machine&, int) { return Error::kSuccess; });
  return OutsideCapture([&](Machine& machine, int) { return machine.FreeSegment(Address(pointer)); });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return OnCurrentGpu([&](Machine& machine, int gpu) -> Error {
    Bytes free_bytes;
    Bytes total_bytes;
    const Error error = machine.GetMemoryInfo(gpu, &free_bytes, &total_bytes);
    if (error != Error::kSuccess) return error;
    *free = static_cast<size_t>(free_bytes.count());
    *total = static_cast<size_t>(total_bytes.count());
    return Error::kSuccess;
  });
}

// --- Of the GPU, from its default pool, in stream order: the pool keeps nothing, and memory is given back at once.

}  // extern "C"

namespace {

constexpr uintptr_t kFirstPool = 0x100;

cudaMemPool_t PoolOf(int gpu) { return reinterpret_cast<cudaMemPool_t>(kFirstPool + static_cast<uintptr_t>(gpu)); }
int GpuOf(cudaMemPool_t pool) { return static_cast<int>(reinterpret_cast<uintptr_t>(pool) - kFirstPool); }

// What the GPU has been told to free is waited for, as a pool does, before there is too little.
Error AllocateFromPool(Machine& machine, int gpu, size_t size, void** pointer) {
  const Error error = Allocate(machine, gpu, size, Segments::Kind::kDevice, pointer);
  if (error != Error::kOutOfMemory || machine.late() == nullptr) return error;
  machine.streams().of(gpu).Wait();
  return Allocate(machine, gpu, size, Segments::Kind::kDevice, pointer);
}

cudaError_t GivePool(cudaMemPool_t* pool, int device) {
  return OnGpu(device, [&](Machine&, Gpu&) { return Give(pool, PoolOf(device)); });
}

}  // namespace

extern "C" {

cudaError_t cudaMallocAsync(void** pointer, size_t size, cudaStream_t) {
  return OnCurrentGpu([&](Machine& machine, int gpu) { return AllocateFromPool(machine, gpu, size, pointer); });
}

cudaError_t cudaMallocFromPoolAsync(void** pointer, size_t size, cudaMemPool_t pool, cudaStream_t) {
  return OnGpu(GpuOf(pool),
               [&](Machine& machine, Gpu&) { return AllocateFromPool(machine, GpuOf(pool), size, pointer); });
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  return OnStream(stream, [&](Machine& machine, Stream& found) -> Error {
    const std::optional<Segments::Segment> segment = machine.segments().Find(Address(pointer));
    if (machine.configuration().wants_uses() && segment) {
      Work work;
      work.name = "cudaFreeAsync";
      work.uses = {{segment->start, segment->size, /*writes=*/true}};
      const auto allow = [&machine, start = segment->start] {
        if (machine.order() != nullptr) machine.order()->MayUnmap(start);
      };
      work.frees_memory = machine.late() != nullptr;
      if (work.frees_memory) {
        // The GPU frees it when it gets there, which cannot fail: it is there.
        work.run = [&machine, allow, start = segment->start] {
          allow();
          (void)machine.segments().Free(start);
        };
      }
      const Error error = machine.streams().Enqueue(found, work);
      if (error != Error::kSuccess || work.frees_memory) return error;
      allow();
    }
    return machine.segments().Free(Address(pointer));
  });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) { return GivePool(pool, device); }
cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) { return GivePool(pool, device); }
cudaError_t cudaDeviceSetMemPool(int, cudaMemPool_t) { return cudaSuccess; }
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc*, size_t) { return cudaSuccess; }
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return cudaSuccess; }

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return OnGpu(GpuOf(pool), [&](Machine&, Gpu& gpu) {
    const PhysicalMemory& memory = gpu.memory();
    auto* bytes = static_cast<uint64_t*>(value);
    switch (attribute) {
      case cudaMemPoolAttrReservedMemCurrent:
      case cudaMemPoolAttrUsedMemCurrent:
        *bytes = static_cast<uint64_t>(memory.used().count());
        return Error::kSuccess;
      case cudaMemPoolAttrReservedMemHigh:
      case cudaMemPoolAttrUsedMemHigh:
        *bytes = static_cast<uint64_t>(memory.peak().count());
        return Error::kSuccess;
      case cudaMemPoolAttrReleaseThreshold:
        *bytes = 0;
        return Error::kSuccess;
      default:
        *static_cast<int*>(value) = 0;
        return Error::kSuccess;
    }
  });
}

// What graphs keep for their own allocation nodes: nothing, as there are no such nodes.
cudaError_t cudaDeviceGetGraphMemAttribute(int, cudaGraphMemAttributeType, void* value) {
  *static_cast<uint64_t*>(value) = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceSetGraphMemAttribute(int, cudaGraphMemAttributeType, void*) { return cudaSuccess; }
cudaError_t cudaDeviceGraphMemTrim(int) { return cudaSuccess; }

// --- Of the host.

cudaError_t cudaHostAlloc(void** pointer, size_t size, unsigned) {
  return OutsideCapture([&](Machine& machine, int) { return machine.AllocateHost(ToBytes(size), pointer); });
}

cudaError_t cudaMallocHost(void** pointer, size_t size) { return cudaHostAlloc(pointer, size, 0); }

cudaError_t cudaFreeHost(void* pointer) {
  return OutsideCapture([&](Machine& machine, int gpu) {
    machine.streams().of(gpu).Wait();
    return machine.host_memory().Free(pointer);
  });
}

cudaError_t cudaHostRegister(void* pointer, size_t size, unsigned) {
  return OnCurrentGpu([&](Machine& machine, int) { return machine.host_memory().Register(pointer, ToBytes(size)); });
}

cudaError_t cudaHostUnregister(void* pointer) {
  return OnCurrentGpu([&](Machine& machine, int) { return machine.host_memory().Unregister(pointer); });
}

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) { return ToResult(Give(device, host)); }

// --- Pointers.

// Member by member: CUDA 12's structure ends after these four, and a program built for it has no room for the rest.
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  auto* mutable_pointer = const_cast<void*>(pointer);
  Machine& machine = TheMachine();
  if (const auto allocation = machine.FindAllocation(Address(pointer))) {
    const bool managed = allocation->kind == Segments::Kind::kManaged;
    attributes->type = managed ? cudaMemoryTypeManaged : cudaMemoryTypeDevice;
    attributes->device = allocation->gpu;
    attributes->devicePointer = mutable_pointer;
    attributes->hostPointer = managed ? mutable_pointer : nullptr;
    return cudaSuccess;
  }
  attributes->hostPointer = mutable_pointer;
  if (machine.host_memory().Contains(pointer)) {
    attributes->type = cudaMemoryTypeHost;
    attributes->device = ThisThread().gpu;
    attributes->devicePointer = mutable_pointer;
  } else {
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = cudaInvalidDeviceId;
    attributes->devicePointer = nullptr;
  }
  return cudaSuccess;
}

}  // extern "C"

}  // namespace frugal::sim
