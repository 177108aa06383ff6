// The little of NVIDIA's management library that PyTorch and programs that watch a GPU ask: which GPUs there are, how
// full and how busy they are, and that they have no NVLink fabric. It sees this process only, and all GPUs of the
// machine, whatever CUDA_VISIBLE_DEVICES says.
//
// Its header comes with no package that every machine has, so what crosses the interface is declared here.

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

#include "simulated_gpu/exports/device_attributes.h"
#include "simulated_gpu/exports/the_machine.h"

namespace {

using frugal::Bytes;
using frugal::sim::Gpu;
using frugal::sim::Machine;
using frugal::sim::TheConfiguration;
using frugal::sim::TheMachineIfMade;

// nvmlReturn_t.
enum Result : int { kSuccess = 0, kInvalidArgument = 2, kNotSupported = 3, kNotFound = 6, kInsufficientSize = 7 };

// nvmlDevice_t: the GPU's slot, plus 1.
using Device = void*;

struct MemoryInfo {
  unsigned long long total, free, used;
};

// Of the second version of the question, told by its `version`.
struct MemoryInfo2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};

struct ProcessInfo {
  unsigned pid;
  unsigned long long used_memory;
};

// Of the second and third version of the question. An instance is a part of a GPU (MIG); there are none.
struct ProcessInfo2 {
  static constexpr unsigned kNoInstance = ~0U;

  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance = kNoInstance;
  unsigned compute_instance = kNoInstance;
};

struct Utilization {
  unsigned gpu, memory;
};

struct FabricInfo {
  unsigned version;
  unsigned char cluster_uuid[16];
  int status;
  unsigned clique;
  unsigned char state;  // 0: there is no fabric.
};

int SlotOf(Device device) { return static_cast<int>(reinterpret_cast<uintptr_t>(device)) - 1; }

Result GiveDevice(int slot, Device* device) {
  if (slot < 0 || slot >= TheConfiguration().gpus) return kNotFound;
  *device = reinterpret_cast<Device>(static_cast<uintptr_t>(slot + 1));
  return kSuccess;
}

Result GiveText(const char* text, char* into, unsigned length) {
  if (std::strlen(text) >= length) return kInsufficientSize;
  std::strcpy(into, text);
  return kSuccess;
}

constexpr int kNotUsed = -1;

// This process's number of the GPU in the slot; kNotUsed before it began to use it.
int NumberOf(int slot) {
  Machine* machine = TheMachineIfMade();
  for (int gpu = 0; machine != nullptr && gpu < machine->gpu_count(); ++gpu) {
    const Gpu& candidate = machine->gpu(gpu);
    if (candidate.slot() == slot && candidate.is_in_use()) return gpu;
  }
  return kNotUsed;
}

// What this process has on the GPU, the driver's own share included; 0 before it began to use it.
Bytes UsedBy(int slot) {
  const int gpu = NumberOf(slot);
  if (gpu == kNotUsed) return Bytes(0);
  const auto& memory = TheMachineIfMade()->gpu(gpu).memory();
  return memory.total() - memory.free();
}

// This process, if it uses the GPU.
template <typename Info>
Result GiveProcesses(Device device, unsigned* count, Info* processes) {
  const Bytes used = UsedBy(SlotOf(device));
  if (used == Bytes(0)) {
    *count = 0;
    return kSuccess;
  }
  const bool fits = *count >= 1;
  *count = 1;
  if (!fits) return kInsufficientSize;
  processes[0] = {static_cast<unsigned>(getpid()), static_cast<unsigned long long>(used.count())};
  return kSuccess;
}

}  // namespace

extern "C" {

Result nvmlInit_v2() { return kSuccess; }
Result nvmlInit() { return kSuccess; }
Result nvmlInitWithFlags(unsigned) { return kSuccess; }
Result nvmlShutdown() { return kSuccess; }

const char* nvmlErrorString(Result result) {
  switch (result) {
    case kSuccess:
      return "The operation was successful";
    case kNotSupported:
      return "Not Supported";
    case kNotFound:
      return "Not Found";
    default:
      return "Invalid Argument";
  }
}

Result nvmlSystemGetDriverVersion(char* version, unsigned length) { return GiveText("580.00", version, length); }

Result nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = frugal::sim::kDriverVersion;
  return kSuccess;
}

Result nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(TheConfiguration().gpus);
  return kSuccess;
}

Result nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
  return GiveDevice(static_cast<int>(index), device);
}

// "0000:01:00.0", or with eight digits for the domain.
Result nvmlDeviceGetHandleByPciBusId_v2(const char* id, Device* device) {
  unsigned domain = 0;
  unsigned bus = 0;
  if (std::sscanf(id, "%x:%x:", &domain, &bus) != 2) return kInvalidArgument;
  for (int slot = 0; slot < TheConfiguration().gpus; ++slot) {
    if (frugal::sim::PciBusOfSlot(slot) == static_cast<int>(bus)) return GiveDevice(slot, device);
  }
  return kNotFound;
}

Result nvmlDeviceGetHandleByUUID(const char* uuid, Device* device) {
  for (int slot = 0; slot < TheConfiguration().gpus; ++slot) {
    if (Gpu::UuidText(slot) == uuid) return GiveDevice(slot, device);
  }
  return kNotFound;
}

Result nvmlDeviceGetIndex(Device device, unsigned* index) {
  *index = static_cast<unsigned>(SlotOf(device));
  return kSuccess;
}

Result nvmlDeviceGetName(Device, char* name, unsigned length) {
  return GiveText(TheConfiguration().model.name.c_str(), name, length);
}

Result nvmlDeviceGetCudaComputeCapability(Device, int* major, int* minor) {
  *major = TheConfiguration().model.capability / 10;
  *minor = TheConfiguration().model.capability % 10;
  return kSuccess;
}

Result nvmlDeviceGetUUID(Device device, char* uuid, unsigned length) {
  return GiveText(Gpu::UuidText(SlotOf(device)).c_str(), uuid, length);
}

Result nvmlDeviceGetMemoryInfo(Device device, MemoryInfo* info) {
  // As a DGX Spark answers: there is no memory that is the GPU's own.
  if (TheConfiguration().host.on) return kNotSupported;
  info->total = static_cast<unsigned long long>(TheConfiguration().memory.count());
  info->used = static_cast<unsigned long long>(UsedBy(SlotOf(device)).count());
  info->free = info->total - info->used;
  return kSuccess;
}

// The driver keeps nothing beside what counts as used.
Result nvmlDeviceGetMemoryInfo_v2(Device device, MemoryInfo2* info) {
  MemoryInfo plain = {};
  const Result result = nvmlDeviceGetMemoryInfo(device, &plain);
  if (result != kSuccess) return result;
  *info = {info->version, plain.total, 0, plain.free, plain.used};
  return result;
}

// Percent of the time since the last samples in which a kernel ran, and in which memory was read or written. Here there
// are no samples: it is all or nothing, by whether the GPU has work now.
Result nvmlDeviceGetUtilizationRates(Device device, Utilization* utilization) {
  const int gpu = NumberOf(SlotOf(device));
  const unsigned percent = gpu != kNotUsed && TheMachineIfMade()->streams().of(gpu).IsBusy() ? 100 : 0;
  *utilization = {percent, percent};
  return kSuccess;
}

Result nvmlDeviceGetComputeRunningProcesses(Device device, unsigned* count, ProcessInfo* processes) {
  return GiveProcesses(device, count, processes);
}
Result nvmlDeviceGetComputeRunningProcesses_v2(Device device, unsigned* count, ProcessInfo2* processes) {
  return GiveProcesses(device, count, processes);
}
Result nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned* count, ProcessInfo2* processes) {
  return GiveProcesses(device, count, processes);
}

Result nvmlDeviceGetGpuFabricInfoV(Device, FabricInfo* info) {
  const unsigned version = info->version;
  *info = {};
  info->version = version;
  return kSuccess;
}

Result nvmlDeviceGetNvLinkRemoteDeviceType(Device, unsigned, int*) { return kNotSupported; }
Result nvmlDeviceGetNvLinkRemotePciInfo_v2(Device, unsigned, void*) { return kNotSupported; }

}  // extern "C"
