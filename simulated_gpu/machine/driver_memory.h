// Memory that the driver takes for itself while a program runs: what a GPU that is filled to its last page starves.

#pragma once

#include <cstdint>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "allocator/port/units.h"
#include "simulated_gpu/machine/error.h"
#include "simulated_gpu/machine/physical_memory.h"

namespace frugal::sim {

// Nothing but a module's memory is given back while the process lives. Where there is no room a call fails with
// kOutOfMemory and has taken nothing. Thread-safe.
class DriverMemory {
 public:
  // The driver's own memory comes in pieces of this size, whatever it is for.
  static constexpr Bytes kPiece = kPageSize;
  // A table of the lowest level that large pages have: 4 KiB with the entries of 512 MiB of addresses.
  static constexpr Bytes kTable = KiB(4);
  static constexpr Bytes kAddressesOfTable = MiB(512);
  // Streams that one piece serves.
  static constexpr int64_t kStreamsOfPiece = 32;

  struct Options {
    // Otherwise nothing is ever taken.
    bool on = false;
    // For a module, at the first launch of one of its kernels on a GPU.
    Bytes module = MiB(4);
  };

  DriverMemory(std::vector<PhysicalMemory*> memory, const Options& options)
      : options_(options), memory_(std::move(memory)), gpus_(memory_.size()) {}
  DriverMemory(const DriverMemory&) = delete;
  DriverMemory& operator=(const DriverMemory&) = delete;

  bool is_on() const { return options_.on; }

  // A kernel of `module`, which is any name for it, is about to run on the GPU.
  Error Load(int gpu, const void* module);
  // No kernel of it will run again.
  void Unload(const void* module);
  // The GPU is about to reach [start, start + size).
  Error MakePageTables(int gpu, Address start, Bytes size);
  // The GPU's kernels may use as much local memory in all threads at the same time.
  Error MakeLocalMemory(int gpu, Bytes size);
  Error MakeStream(int gpu);

  // In a process that was forked from the machine's.
  void BecomeForkedChild();

 private:
  struct OfGpu {
    std::set<const void*> modules;
    std::set<uint64_t> tables;  // By the number of the 512 MiB.
    Bytes local;
    int64_t streams = 0;
  };

  const Options options_;
  const std::vector<PhysicalMemory*> memory_;  // By GPU.
  std::mutex mutex_;
  std::vector<OfGpu> gpus_;
};

}  // namespace frugal::sim
