// What the simulated machine is like, and how the environment says so (control.h lists the variables).

#ifndef FRUGAL_CUDA_SIMULATED_CONFIGURATION_H_
#define FRUGAL_CUDA_SIMULATED_CONFIGURATION_H_

#include <string>

#include "allocator/units.h"
#include "cuda/simulated/clock.h"
#include "cuda/simulated/fault_plan.h"
#include "cuda/simulated/physical_memory.h"

namespace frugal::sim {

struct Configuration {
  static constexpr int kMostGpus = 16;

  // Of each GPU, and how much of it the driver keeps for itself.
  Bytes memory = GiB(16);
  Bytes context = MiB(512);
  int gpus = 1;
  // Time that each kernel, copy and fill takes on its stream.
  Nanoseconds kernel{0};
  Backing backing = Backing::kMemory;
  bool virtual_memory = true;
  bool verbose = false;
  // The order of work is checked, and what is found is told when the process ends.
  bool order = false;
  FaultPlan faults;

  // False, with one line in `problem` that says what to do, if a FRUGAL_SIM_ variable cannot be understood.
  static bool FromEnvironment(Configuration* configuration, std::string* problem);
};

}  // namespace frugal::sim

#endif  // FRUGAL_CUDA_SIMULATED_CONFIGURATION_H_
