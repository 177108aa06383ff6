// The physical memory of one GPU: how much there is, how much is taken, and the host memory that stands for it.

#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "allocator/port/units.h"
#include "simulated_gpu/machine/sparse_file.h"

namespace frugal::sim {

class ComputeNode;
class UnifiedHost;

enum class Backing { kMemory, kNone };

// Physical memory is not contiguous on a GPU, either: only its sum is limited. Thread-safe.
class PhysicalMemory {
 public:
  // The driver keeps `context` of `total` for itself. With a `node` other processes take of it, too: what is free is
  // what they leave, and this process's context is taken with the first thing that it takes. `slot` is the GPU's there.
  // Where the memory is a `host`'s, what that holds is not free, either, and to ask for more than is free overloads it.
  PhysicalMemory(Bytes total, Bytes context, Backing backing, ComputeNode* node = nullptr, int slot = 0,
                 UnifiedHost* host = nullptr);

  // From here on what is taken may go beyond the total. Call it before anything is taken.
  void AllowBeyond() { beyond_ = true; }

  // Takes `size`, a multiple of kPageSize; nullopt if there is not as much left.
  std::optional<FileRange> Take(Bytes size);
  // Gives back what Take() returned. The host's memory goes with it, unless another process may hold the range,
  // too (`shared`): the file lives as long as any process that has it open.
  void GiveBack(const FileRange& range, Bytes size, bool shared);

  // Takes `size` for the driver itself, beside its context. False if there is not as much left.
  bool TakeForDriver(Bytes size);
  void GiveBackForDriver(Bytes size);
  Bytes taken_for_driver() const;

  Bytes total() const { return total_; }
  Bytes used() const;
  // By everybody, for the driver, too: all that is not free but what the host holds.
  Bytes taken() const;
  // Never below 0. What the driver calls free is less where the memory is a host's: see UnifiedHost::Free.
  Bytes free() const;
  // The highest used() since the start or the last ResetPeak().
  Bytes peak() const;
  void ResetPeak();

  // The file, once anything was taken; nullptr without backing.
  std::shared_ptr<SparseFile> file() const;

 private:
  // Of what is limited; the caller holds the lock.
  bool TakeRoom(Bytes size);
  bool TakeOwnRoom(Bytes size);
  void GiveBackRoom(Bytes size);
  Bytes FreeRoom() const;

  const Bytes total_;
  const Bytes context_;
  const Backing backing_;
  ComputeNode* const node_;
  const int slot_;
  UnifiedHost* const host_;
  bool beyond_ = false;

  mutable std::mutex mutex_;
  bool has_context_ = false;  // On a node.
  Bytes used_;
  Bytes driver_;
  Bytes peak_;
  Bytes overdraft_;  // What was taken that the node did not have.
  Bytes next_offset_;
  std::shared_ptr<SparseFile> file_;
};

}  // namespace frugal::sim
