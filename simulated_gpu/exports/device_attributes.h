// What the simulated GPU says of itself, by its model.

#pragma once

#include <cstddef>

#include "simulated_gpu/machine/machine.h"

namespace frugal::sim {

// Of CUDA 13.0, as cuDriverGetVersion gives it.
inline constexpr int kDriverVersion = 13000;

// The value of a CUdevice_attribute, which cudaDeviceAttr numbers alike; 0 for those that the GPU lacks.
int DeviceAttribute(int attribute, const Machine& machine);

// "0000:01:00.0" for the first GPU of the machine.
inline constexpr int kPciDomain = 0;
constexpr int PciBusOfSlot(int slot) { return slot + 1; }
inline int PciBus(const Gpu& gpu) { return PciBusOfSlot(gpu.slot()); }

// Of all threads that can be resident, for kernels that use as much of it a thread.
Bytes LocalMemory(const Machine& machine, size_t bytes_of_thread);

}  // namespace frugal::sim
