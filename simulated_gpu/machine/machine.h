// A machine with simulated GPUs, put together from its parts: what the exported CUDA functions and the in-process test
// device share. It knows no CUDA header.
//
// Lock order: a part may call those above it in the list of members while it holds its own lock, never those below.

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "allocator/port/units.h"
#include "simulated_gpu/machine/address_space.h"
#include "simulated_gpu/machine/calls.h"
#include "simulated_gpu/machine/clock.h"
#include "simulated_gpu/machine/compute_node.h"
#include "simulated_gpu/machine/configuration.h"
#include "simulated_gpu/machine/context.h"
#include "simulated_gpu/machine/driver_lock.h"
#include "simulated_gpu/machine/driver_memory.h"
#include "simulated_gpu/machine/gpu.h"
#include "simulated_gpu/machine/graph.h"
#include "simulated_gpu/machine/host_memory.h"
#include "simulated_gpu/machine/late_work.h"
#include "simulated_gpu/machine/mapping_log.h"
#include "simulated_gpu/machine/order_checker.h"
#include "simulated_gpu/machine/peers.h"
#include "simulated_gpu/machine/quota.h"
#include "simulated_gpu/machine/segments.h"
#include "simulated_gpu/machine/streams.h"
#include "simulated_gpu/machine/unified_host.h"
#include "simulated_gpu/machine/virtual_memory.h"

namespace frugal::sim {

// Thread-safe.
class Machine {
 public:
  // The GPUs in `slots` of the configured ones, in that order; of `node`, where they are shared with other processes.
  Machine(const Configuration& configuration, const std::vector<int>& slots,
          std::unique_ptr<ComputeNode> node = nullptr);
  // All of them.
  explicit Machine(const Configuration& configuration);

  // The GPUs that a program sees by CUDA_VISIBLE_DEVICES: numbers or "GPU-<uuid>" up to the first that does not
  // exist, as CUDA reads it. nullptr means all.
  static std::vector<int> VisibleSlots(const char* visible_devices, int gpus);

  const Configuration& configuration() const { return configuration_; }
  int gpu_count() const { return gpu_count_; }
  bool HasGpu(int gpu) const { return gpu >= 0 && gpu < gpu_count(); }
  // This process was forked from the one that made the machine, whose GPUs it cannot use. Takes no lock: a thread that
  // held one is not here any more.
  void BecomeForkedChild() {
    calls_.BecomeForkedChild();
    driver_memory_.BecomeForkedChild();
    if (node_ != nullptr) node_->Leave();
    gpu_count_ = 0;
    forked_ = true;
  }
  // Why there is no GPU, if there is none.
  Error NoGpuError() const { return forked_ ? Error::kNotInitialized : Error::kNoDevice; }
  // REQUIRES: HasGpu(gpu).
  Gpu& gpu(int gpu) { return *gpus_[gpu]; }

  Clock& clock() { return clock_; }
  Calls& calls() { return calls_; }
  Contexts& contexts() { return contexts_; }
  Graphs& graphs() { return graphs_; }
  DriverMemory& driver_memory() { return driver_memory_; }
  // Views and segments, each as often as there are GPUs that may reach it: of the node, if there is one.
  const Quota& mapped_handles() const { return *mapped_handles_; }
  // nullptr unless the configuration asks for one.
  OrderChecker* order() { return configuration_.order ? order_.get() : nullptr; }
  // nullptr unless the configuration says that work is late.
  LateWork* late() { return late_.get(); }
  Streams& streams() { return streams_; }
  Peers& peers() { return peers_; }
  HostMemory& host_memory() { return host_memory_; }
  // The host whose memory the GPU's is, where it is one's.
  UnifiedHost& unified_host() { return unified_host_; }
  VirtualMemory& virtual_memory() { return virtual_memory_; }
  Segments& segments() { return segments_; }

  // cudaMemGetInfo.
  Error GetMemoryInfo(int gpu, Bytes* free, Bytes* total);

  // What a file of the kernel's says on a machine like this; see UnifiedHost::File.
  std::optional<std::string> HostFile(std::string_view path);
  // cudaHostAlloc.
  Error AllocateHost(Bytes size, void** start);

  // cudaFree: waits for all work on the segment's GPU first.
  Error FreeSegment(Address start);

  // Device memory of any kind.
  struct Allocation {
    Address start;
    Bytes size;
    int gpu;
    Segments::Kind kind;
  };
  std::optional<Allocation> FindAllocation(Address address) const;

  // What work of `gpu` may do with memory at `address`: a segment's by peer access, a view's by SetAccess. Nothing,
  // with what is neither device memory nor the host's as CUDA knows it.
  AddressSpace::Access AccessOf(int gpu, Address address) const;

 private:
  std::vector<PhysicalMemory*> Memories();

  const Configuration configuration_;
  const std::unique_ptr<ComputeNode> node_;  // May be null.
  UnifiedHost unified_host_;
  std::vector<std::unique_ptr<Gpu>> gpus_;
  int gpu_count_;
  bool forked_ = false;
  Clock clock_;
  DriverLock driver_lock_;
  Calls calls_;
  AddressSpace addresses_;
  const std::unique_ptr<Quota> mapped_handles_;
  Quota host_mappings_;
  DriverMemory driver_memory_;
  Contexts contexts_;
  Graphs graphs_;
  const std::unique_ptr<MappingLog> mappings_;
  // Without a check of order, it only passes on which memory is where.
  const std::unique_ptr<OrderChecker> order_;
  const std::unique_ptr<LateWork> late_;
  Streams streams_;
  Peers peers_;
  HostMemory host_memory_;
  VirtualMemory virtual_memory_;
  Segments segments_;
};

}  // namespace frugal::sim
