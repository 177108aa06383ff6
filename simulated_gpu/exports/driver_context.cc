// The driver's devices and contexts, and the words for its errors.

#include <cuda.h>

#include <atomic>
#include <cstdio>
#include <cstring>

#include "simulated_gpu/exports/device_attributes.h"
#include "simulated_gpu/exports/driver.h"

namespace frugal::sim {

namespace {

std::atomic<bool> initialized{false};

// Calls `body` with a GPU of the machine.
template <typename Body>
CUresult OnDevice(CUdevice device, Body body) {
  Machine& machine = TheMachine();
  if (!machine.HasGpu(device)) {
    return machine.gpu_count() == 0 ? ToResult(machine.NoGpuError()) : CUDA_ERROR_INVALID_DEVICE;
  }
  body(machine, machine.gpu(device));
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned) {
  if (TheMachine().gpu_count() == 0) return ToResult(TheMachine().NoGpuError());
  initialized = true;
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int* version) { return ToResult(Give(version, kDriverVersion)); }

CUresult cuGetErrorString(CUresult error, const char** text) {
  return ToResult(Give(text, TextOf(static_cast<Error>(error)).words));
}

CUresult cuGetErrorName(CUresult error, const char** name) {
  return ToResult(Give(name, TextOf(static_cast<Error>(error)).driver_name));
}

// --- Devices.

CUresult cuDeviceGetCount(int* count) {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  *count = TheMachine().gpu_count();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return OnDevice(ordinal, [&](Machine&, Gpu&) { *device = ordinal; });
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  return OnDevice(device, [&](Machine& machine, Gpu&) {
    std::snprintf(name, static_cast<size_t>(length), "%s", machine.configuration().model.name.c_str());
  });
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  return OnDevice(device,
                  [&](Machine&, Gpu& gpu) { std::memcpy(uuid->bytes, gpu.uuid().data(), sizeof(uuid->bytes)); });
}

CUresult cuDeviceTotalMem(size_t* size, CUdevice device) {
  return OnDevice(device, [&](Machine&, Gpu& gpu) { *size = static_cast<size_t>(gpu.memory().total().count()); });
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  return OnDevice(device, [&](Machine& machine, Gpu& gpu) {
    *value = attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID ? PciBus(gpu) : DeviceAttribute(attribute, machine);
  });
}

CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
  return OnDevice(device, [&](Machine& machine, Gpu&) {
    const int capability = machine.configuration().model.capability;
    *major = capability / 10;
    *minor = capability % 10;
  });
}

CUresult cuDeviceGetPCIBusId(char* id, int length, CUdevice device) {
  return OnDevice(device, [&](Machine&, Gpu& gpu) {
    std::snprintf(id, static_cast<size_t>(length), "%04x:%02x:00.0", kPciDomain, PciBus(gpu));
  });
}

// --- Contexts.

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  return OnDevice(device, [&](Machine&, Gpu& gpu) {
    *flags = 0;
    *active = gpu.is_in_use();
  });
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  if (const Error fault = BeginDriverCall(CallKind::kContext); fault != Error::kSuccess) return ToResult(fault);
  return OnDevice(device, [&](Machine&, Gpu& gpu) {
    gpu.Use();
    *context = ContextOf(device);
  });
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  return OnDevice(device, [](Machine&, Gpu&) {});
}

}  // extern "C"

namespace {

[[gnu::noinline]] CUresult GetCurrentOrFail(CUcontext* context) {
  if (const Error fault = BeginDriverCall(CallKind::kContext); fault != Error::kSuccess) return ToResult(fault);
  const ThreadState& thread = ThisThread();
  *context = thread.context == nullptr ? nullptr : ToHandle(*thread.context);
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

// Asked for each allocation on a default stream.
CUresult cuCtxGetCurrent(CUcontext* context) {
  if (!TheMachine().calls().CountOften(CallKind::kContext)) return GetCurrentOrFail(context);
  const Context* const current = ThisThread().context;
  *context = current == nullptr ? nullptr : ToHandle(*current);
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext handle) {
  Context* context = nullptr;
  if (handle != nullptr) {
    if (const Error error = FindContext(handle, __func__, &context); error != Error::kSuccess) return ToResult(error);
  }
  ThisThread().SetContext(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext handle) {
  if (const Error fault = BeginDriverCall(CallKind::kContext); fault != Error::kSuccess) return ToResult(fault);
  Context* context = nullptr;
  if (const Error error = FindContext(handle, __func__, &context); error != Error::kSuccess) return ToResult(error);
  ThisThread().PushContext(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext* context) {
  if (ThisThread().context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const Context* popped = ThisThread().PopContext();
  if (context != nullptr) *context = ToHandle(*popped);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  return InCurrentContext([&](Machine&, Context& context) { return Give(device, context.gpu()); });
}

CUresult cuCtxGetId(CUcontext handle, unsigned long long* id) {
  Context* context = ThisThread().context;
  if (handle != nullptr || context == nullptr) {
    if (const Error error = FindContext(handle, __func__, &context); error != Error::kSuccess) return ToResult(error);
  }
  *id = context->id();
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void) {
  return InCurrentContext(
      [](Machine& machine, Context& context) { return machine.streams().of(context).Synchronize(); });
}

CUresult cuCtxRecordEvent(CUcontext handle, CUevent event) {
  Context* context = nullptr;
  if (const Error error = FindContext(handle, __func__, &context); error != Error::kSuccess) return ToResult(error);
  if (const Error error = CheckEvent(event, __func__); error != Error::kSuccess) return ToResult(error);
  const InDriver scope;
  return ToResult(TheMachine().streams().of(*context).Record(reinterpret_cast<Event*>(event)));
}

CUresult cuCtxWaitEvent(CUcontext handle, CUevent event) {
  Context* context = nullptr;
  if (const Error error = FindContext(handle, __func__, &context); error != Error::kSuccess) return ToResult(error);
  if (const Error error = CheckEvent(event, __func__); error != Error::kSuccess) return ToResult(error);
  const InDriver scope;
  return ToResult(TheMachine().streams().of(*context).WaitFor(reinterpret_cast<Event*>(event)));
}

}  // extern "C"

}  // namespace frugal::sim
