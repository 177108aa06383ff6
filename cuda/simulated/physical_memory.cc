#include "cuda/simulated/physical_memory.h"

#include <algorithm>

namespace frugal::sim {

PhysicalMemory::PhysicalMemory(Bytes total, Bytes context, Backing backing)
    : total_(total), limit_(total - std::min(total, context)), backing_(backing) {}

std::optional<FileRange> PhysicalMemory::Take(Bytes size) {
  std::lock_guard lock(mutex_);
  if (size > limit_ - used_) return std::nullopt;
  if (backing_ == Backing::kMemory && !file_) {
    file_ = SparseFile::Create();
    if (!file_) return std::nullopt;
  }
  used_ += size;
  peak_ = std::max(peak_, used_);
  // Ascending offsets let handles that are created one after the other, and mapped so, share one host mapping.
  const FileRange range{file_, next_offset_};
  next_offset_ += size;
  return range;
}

void PhysicalMemory::GiveBack(const FileRange& range, Bytes size, bool shared) {
  if (range.file && !shared) range.file->Discard(range.offset, size);
  std::lock_guard lock(mutex_);
  used_ -= size;
}

Bytes PhysicalMemory::used() const {
  std::lock_guard lock(mutex_);
  return used_;
}

Bytes PhysicalMemory::free() const {
  std::lock_guard lock(mutex_);
  return limit_ - used_;
}

Bytes PhysicalMemory::peak() const {
  std::lock_guard lock(mutex_);
  return peak_;
}

void PhysicalMemory::ResetPeak() {
  std::lock_guard lock(mutex_);
  peak_ = used_;
}

std::shared_ptr<SparseFile> PhysicalMemory::file() const {
  std::lock_guard lock(mutex_);
  return file_;
}

}  // namespace frugal::sim
