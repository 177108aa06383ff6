// The physical memory of one GPU: how much there is, how much is taken, and the host memory that stands for it.

#ifndef FRUGAL_CUDA_SIMULATED_PHYSICAL_MEMORY_H_
#define FRUGAL_CUDA_SIMULATED_PHYSICAL_MEMORY_H_

#include <memory>
#include <mutex>
#include <optional>

#include "allocator/units.h"
#include "cuda/simulated/sparse_file.h"

namespace frugal::sim {

enum class Backing { kMemory, kNone };

// Physical memory is not contiguous on a GPU, either: only its sum is limited. Thread-safe.
class PhysicalMemory {
 public:
  // The driver keeps `context` of `total` for itself.
  PhysicalMemory(Bytes total, Bytes context, Backing backing);

  // Takes `size`, a multiple of kPageSize; nullopt if there is not as much left.
  std::optional<FileRange> Take(Bytes size);
  // Gives back what Take() returned. The host's memory goes with it, unless another process may hold the range,
  // too (`shared`): the file lives as long as any process that has it open.
  void GiveBack(const FileRange& range, Bytes size, bool shared);

  Bytes total() const { return total_; }
  Bytes used() const;
  Bytes free() const;
  // The highest used() since the start or the last ResetPeak().
  Bytes peak() const;
  void ResetPeak();

  // The file, once anything was taken; nullptr without backing.
  std::shared_ptr<SparseFile> file() const;

 private:
  const Bytes total_;
  const Bytes limit_;
  const Backing backing_;

  mutable std::mutex mutex_;
  Bytes used_;
  Bytes peak_;
  Bytes next_offset_;
  std::shared_ptr<SparseFile> file_;
};

}  // namespace frugal::sim

#endif  // FRUGAL_CUDA_SIMULATED_PHYSICAL_MEMORY_H_
