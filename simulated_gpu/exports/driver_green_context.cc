// The driver's green contexts: parts of a GPU, of so many of its multiprocessors, with default streams of their own.

#include <cuda.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "simulated_gpu/exports/driver.h"

namespace frugal::sim {

namespace {

// How a GPU is divided, as CUDA documents it for cuDevSmResourceSplitByCount: from capability 9.0 on by eights of
// multiprocessors or, where a kernel's clusters need not be scheduled together, by twos; before by twos, and into no
// fewer than four from 8.0 on.
struct Division {
  unsigned least;
  unsigned step;
};

Division DivisionOf(int capability, bool of_clusters = true) {
  if (capability >= 90) return of_clusters ? Division{8, 8} : Division{2, 2};
  return {capability >= 80 ? 4u : 2u, 2};
}

Division TheDivision(bool of_clusters = true) {
  return DivisionOf(TheMachine().configuration().model.capability, of_clusters);
}

void GiveMultiprocessors(unsigned count, CUdevResource* resource) {
  *resource = {};
  resource->type = CU_DEV_RESOURCE_TYPE_SM;
  resource->sm.smCount = count;
  resource->sm.minSmPartitionSize = TheDivision().least;
  resource->sm.smCoscheduledAlignment = TheDivision().step;
}

CUresult GiveResource(const Context& context, CUdevResource* resource, CUdevResourceType type) {
  if (resource == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  GiveMultiprocessors(context.multiprocessors(), resource);
  return CUDA_SUCCESS;
}

// CUDA has no call that gives a descriptor back, so it holds nothing: it is the number of multiprocessors.
constexpr uintptr_t kDescriptor = 0x6765'0000;

CUdevResourceDesc ToDescriptor(unsigned multiprocessors) {
  return reinterpret_cast<CUdevResourceDesc>(kDescriptor + multiprocessors);
}

std::optional<unsigned> MultiprocessorsOf(CUdevResourceDesc descriptor) {
  const uintptr_t count = reinterpret_cast<uintptr_t>(descriptor) - kDescriptor;
  if (count == 0 || count > static_cast<unsigned>(TheMachine().configuration().model.multiprocessors))
    return std::nullopt;
  return static_cast<unsigned>(count);
}

// Calls `body` with the machine and the green context.
template <typename Body>
CUresult InGreenContext(CUgreenCtx handle, Body body, const char* function = __builtin_FUNCTION()) {
  Context* context = nullptr;
  if (const Error error = FindGreenContext(handle, function, &context); error != Error::kSuccess) {
    return ToResult(error);
  }
  const InDriver scope;
  return ToResult(body(TheMachine(), *context));
}

}  // namespace

extern "C" {

// --- Resources.

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource* resource, CUdevResourceType type) {
  if (!TheMachine().HasGpu(device)) return CUDA_ERROR_INVALID_DEVICE;
  return GiveResource(TheMachine().contexts().primary(device), resource, type);
}

CUresult cuCtxGetDevResource(CUcontext handle, CUdevResource* resource, CUdevResourceType type) {
  Context* context = nullptr;
  if (const Error error = FindContext(handle, __func__, &context); error != Error::kSuccess) return ToResult(error);
  return GiveResource(*context, resource, type);
}

CUresult cuGreenCtxGetDevResource(CUgreenCtx handle, CUdevResource* resource, CUdevResourceType type) {
  Context* context = nullptr;
  if (const Error error = FindGreenContext(handle, __func__, &context); error != Error::kSuccess) {
    return ToResult(error);
  }
  return GiveResource(*context, resource, type);
}

CUresult cuDevSmResourceSplitByCount(CUdevResource* result, unsigned* groups, const CUdevResource* input,
                                     CUdevResource* remaining, unsigned flags, unsigned least) {
  if (groups == nullptr || input == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (input->type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  const Division division = TheDivision(!(flags & CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING));
  const unsigned total = input->sm.smCount;
  if (least > total) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  const unsigned each = (std::max(least, division.least) + division.step - 1) / division.step * division.step;
  const unsigned possible = total / each;
  if (possible == 0) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  *groups = result == nullptr ? possible : std::min(*groups, possible);
  if (result != nullptr) {
    for (unsigned i = 0; i < *groups; ++i) GiveMultiprocessors(each, &result[i]);
  }
  if (remaining != nullptr) {
    GiveMultiprocessors(total - *groups * each, remaining);
    if (remaining->sm.smCount == 0) remaining->type = CU_DEV_RESOURCE_TYPE_INVALID;
  }
  return CUDA_SUCCESS;
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc* descriptor, CUdevResource* resources, unsigned count) {
  if (descriptor == nullptr || resources == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  unsigned multiprocessors = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (resources[i].type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    multiprocessors += resources[i].sm.smCount;
  }
  *descriptor = ToDescriptor(multiprocessors);
  return MultiprocessorsOf(*descriptor) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
}

// --- Green contexts.

CUresult cuGreenCtxCreate(CUgreenCtx* green, CUdevResourceDesc descriptor, CUdevice device, unsigned flags) {
  if (green == nullptr || flags != CU_GREEN_CTX_DEFAULT_STREAM) return CUDA_ERROR_INVALID_VALUE;
  Machine& machine = TheMachine();
  if (!machine.HasGpu(device)) return CUDA_ERROR_INVALID_DEVICE;
  const std::optional<unsigned> multiprocessors = MultiprocessorsOf(descriptor);
  if (!multiprocessors) return CUDA_ERROR_INVALID_VALUE;
  machine.gpu(device).Use();
  *green = ToGreenHandle(*machine.contexts().CreateGreen(device, *multiprocessors));
  return CUDA_SUCCESS;
}

// Its streams stay until they are destroyed, but can be used no more.
CUresult cuGreenCtxDestroy(CUgreenCtx handle) {
  return InGreenContext(handle, [](Machine& machine, Context& context) {
    machine.streams().of(context).InvalidateCaptures();
    return machine.contexts().DestroyGreen(context);
  });
}

CUresult cuCtxFromGreenCtx(CUcontext* context, CUgreenCtx handle) {
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return InGreenContext(handle, [&](Machine&, Context& found) { return Give(context, ToHandle(found)); });
}

CUresult cuGreenCtxGetId(CUgreenCtx handle, unsigned long long* id) {
  return InGreenContext(handle, [&](Machine&, Context& context) { return Give(id, context.id()); });
}

CUresult cuGreenCtxStreamCreate(CUstream* stream, CUgreenCtx handle, unsigned flags, int priority) {
  // The driver, too, has no blocking ones.
  if (stream == nullptr || flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  return InGreenContext(handle, [&](Machine& machine, Context& context) {
    return Give(stream,
                reinterpret_cast<CUstream>(machine.streams().Create(context, Stream::Kind::kNonBlocking, priority)));
  });
}

CUresult cuGreenCtxRecordEvent(CUgreenCtx handle, CUevent event) {
  if (const Error error = CheckEvent(event, __func__); error != Error::kSuccess) return ToResult(error);
  return InGreenContext(handle, [&](Machine& machine, Context& context) {
    return machine.streams().of(context).Record(reinterpret_cast<Event*>(event));
  });
}

CUresult cuGreenCtxWaitEvent(CUgreenCtx handle, CUevent event) {
  if (const Error error = CheckEvent(event, __func__); error != Error::kSuccess) return ToResult(error);
  return InGreenContext(handle, [&](Machine& machine, Context& context) {
    return machine.streams().of(context).WaitFor(reinterpret_cast<Event*>(event));
  });
}

}  // extern "C"

}  // namespace frugal::sim
