// The GPU that a history is played on, beside what allocators do with it: what they cost it, and time and order where
// it lets itself be told of them.

#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>

#include "bindings/replay/request.h"

namespace frugal::replay {

class Gpu {
 public:
  Gpu() = default;
  virtual ~Gpu() = default;
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  // Costs and the peak of memory are counted from here on.
  virtual void Reset() = 0;
  virtual Costs CostsSoFar() const = 0;
  // The most physical memory that the allocator held at a time, in bytes.
  virtual uint64_t MemoryPeak() const = 0;

  // What a pass has taken of the thread's time, from an arbitrary beginning.
  virtual double SpentNs() const = 0;

  // Around every call into the allocator.
  virtual void CallBegins() {}
  virtual void CallEnds() {}

  // Where time is simulated: it is `ns` now, and the work that the stream has ends at `until_ns`.
  virtual void SetClock(uint64_t /*ns*/) {}
  virtual void KeepBusy(cudaStream_t /*stream*/, uint64_t /*until_ns*/) {}

  // Where the order of work is checked: what is declared to use memory, and what came of it.
  virtual bool ChecksOrder() const { return false; }
  virtual void Touch(cudaStream_t /*stream*/, const void* /*start*/, uint64_t /*bytes*/, bool /*writes*/,
                     const std::string& /*name*/) {}
  virtual uint64_t OrderAccesses() const { return 0; }
  virtual uint64_t OrderViolations() const { return 0; }
  virtual std::string OrderReport() const { return ""; }
};

// The simulated GPU that this process runs on, found through the functions that its libcudart exports
// (simulated_gpu/machine/control.h). Costs are by its model, and memory is what it counts. None on a real GPU, or where
// libcudart is another one than the simulated.
std::unique_ptr<Gpu> FindSimulatedGpu();

// A GPU whose driver is timed by the wall's clock, and whose memory is counted by the allocator.
//
// frugal_alloc times its driver calls itself. PyTorch's allocators do not, so what counts as their driver's is the time
// of those calls into the allocator in which it took memory from the device or gave some back. The time of all calls
// is taken alike for every allocator. Streams have no work: what a late stream uses is done when the driver is asked.
//
// REQUIRES: c10's allocator has been initialised.
std::unique_ptr<Gpu> MakeRealGpu();

}  // namespace frugal::replay
