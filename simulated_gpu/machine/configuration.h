// What the simulated machine is like, and how the environment says so: docs/simulated_gpu_inside.md has the variables.

#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "allocator/port/driver_cost_table.h"
#include "allocator/port/units.h"
#include "simulated_gpu/machine/clock.h"
#include "simulated_gpu/machine/compute_node.h"
#include "simulated_gpu/machine/driver_memory.h"
#include "simulated_gpu/machine/fault_plan.h"
#include "simulated_gpu/machine/gpu_model.h"
#include "simulated_gpu/machine/physical_memory.h"
#include "simulated_gpu/machine/unified_host.h"

namespace frugal::sim {

struct Configuration {
  static constexpr int kMostGpus = ComputeNode::kMostGpus;

  // Of each GPU, and how much of it the driver keeps for itself.
  Bytes memory = GiB(16);
  Bytes context = MiB(512);
  int gpus = 1;
  // Requests for more than there is succeed.
  bool beyond = false;
  // Of all of them.
  GpuModel model = {};
  // Time that each kernel, copy and fill takes on its stream.
  Nanoseconds kernel{0};
  Backing backing = Backing::kMemory;
  // Copies and fills of device memory of more than so much move nothing.
  Bytes keep = GiB(1 << 20);
  bool virtual_memory = true;
  bool verbose = false;
  // Libraries ask for workspaces as a model of them on this GPU has it.
  bool models_workspaces = false;
  // The first call of a function that is not simulated ends the process.
  bool unsupported_ends = false;
  // The order of work is checked, and what is found is told when the process ends.
  bool order = false;
  // A stream, an event or a context that is used after its destruction ends the process.
  bool strict = false;
  // Work touches its memory when simulated time reaches its end, and time is what CUDA's calls and kernels take.
  bool late = false;
  // Time is that, but work is done at once.
  bool modelled_time = false;
  // Late work moves its bytes only then; otherwise at once, as without it, and is only checked then.
  bool late_data = true;
  // `kernel` was asked for: that is what each takes, whatever it touches.
  bool kernel_given = false;
  FaultPlan faults = {};
  // What calls cost, and whether they take that time on the clock.
  DriverCosts costs = {};
  bool driver_time = false;
  // The file of the node that this process belongs to; "" for one of its own.
  std::string node = {};
  // Of the whole node: what NVIDIA's open kernel module can number.
  int64_t mapped_handles = 0x80000;
  // Of this process: what x86-64 has for programs.
  Bytes addresses = GiB(128 << 10);
  int64_t host_mappings = std::numeric_limits<int64_t>::max();
  DriverMemory::Options driver_memory = {};
  // `memory` is the host's, and the one GPU's, then.
  UnifiedHost::Options host = {};

  // Time is what calls and work take, and not the wall's.
  bool counts_time() const { return late || modelled_time; }
  // Copies and fills of so much device memory move bytes.
  bool moves(Bytes size) const { return backing == Backing::kMemory && size <= keep; }
  // How long what touches so many bytes of a GPU's memory takes, or of the host's.
  Nanoseconds DurationOf(Bytes touched, bool of_host = false) const;
  // What is declared of work is of use to someone.
  bool wants_uses() const { return order || late; }

  // False, with one line in `problem` that says what to do, if a FRUGAL_SIM_ variable cannot be understood.
  static bool FromEnvironment(Configuration* configuration, std::string* problem);
};

}  // namespace frugal::sim
