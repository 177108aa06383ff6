// One simulated GPU: a number, memory, and whether a program has begun to use it.

#pragma once

#include <array>
#include <atomic>
#include <string>

#include "allocator/port/units.h"
#include "simulated_gpu/machine/physical_memory.h"

namespace frugal::sim {

class Gpu {
 public:
  // `slot` is the GPU's place in the machine, which stays its own however many of them a program sees.
  // `node` and `host` may be null.
  Gpu(int slot, Bytes total, Bytes context, Backing backing, ComputeNode* node = nullptr, UnifiedHost* host = nullptr)
      : slot_(slot), memory_(total, context, backing, node, slot, host) {}
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  int slot() const { return slot_; }
  std::array<char, 16> uuid() const { return UuidOf(slot_); }
  static std::array<char, 16> UuidOf(int slot);
  // "GPU-66727567-616c-2d73-...", as nvidia-smi prints it.
  static std::string UuidText(int slot);

  PhysicalMemory& memory() { return memory_; }
  const PhysicalMemory& memory() const { return memory_; }

  // Whether the program has a context on it.
  bool is_in_use() const { return in_use_.load(std::memory_order_relaxed); }
  void Use() { in_use_.store(true, std::memory_order_relaxed); }

 private:
  const int slot_;
  PhysicalMemory memory_;
  std::atomic<bool> in_use_{false};
};

}  // namespace frugal::sim
