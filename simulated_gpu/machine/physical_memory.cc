#include "simulated_gpu/machine/physical_memory.h"

#include <algorithm>

#include "simulated_gpu/machine/compute_node.h"
#include "simulated_gpu/machine/unified_host.h"

namespace frugal::sim {

PhysicalMemory::PhysicalMemory(Bytes total, Bytes context, Backing backing, ComputeNode* node, int slot,
                               UnifiedHost* host)
    : total_(total), context_(std::min(total, context)), backing_(backing), node_(node), slot_(slot), host_(host) {}

bool PhysicalMemory::TakeRoom(Bytes size) {
  if (beyond_) {
    // Other processes of a node see of it what there is.
    if (node_ != nullptr && !TakeOwnRoom(size)) overdraft_ += size;
    return true;
  }
  if (host_ == nullptr) return TakeOwnRoom(size);
  const Bytes room = FreeRoom();
  if (size <= room && TakeOwnRoom(size)) return true;
  host_->NoteOverload(size, room);
  return false;
}

bool PhysicalMemory::TakeOwnRoom(Bytes size) {
  if (node_ == nullptr) return size <= FreeRoom();
  if (!has_context_) has_context_ = node_->TakeMemory(slot_, context_);
  return has_context_ && node_->TakeMemory(slot_, size);
}

Bytes PhysicalMemory::FreeRoom() const {
  const Bytes of_host = host_ == nullptr ? Bytes(0) : host_->Held();
  if (node_ == nullptr) return total_ - context_ - used_ - driver_ - of_host;
  const Bytes left = node_->FreeMemory(slot_) - of_host;
  return has_context_ ? left : left - std::min(std::max(left, Bytes(0)), context_);
}

void PhysicalMemory::GiveBackRoom(Bytes size) {
  if (node_ == nullptr) return;
  const Bytes overdrawn = std::min(overdraft_, size);
  overdraft_ -= overdrawn;
  if (size > overdrawn) node_->GiveBackMemory(slot_, size - overdrawn);
}

std::optional<FileRange> PhysicalMemory::Take(Bytes size) {
  std::lock_guard lock(mutex_);
  if (backing_ == Backing::kMemory && !file_) {
    file_ = SparseFile::Create();
    if (!file_) return std::nullopt;
  }
  if (!TakeRoom(size)) return std::nullopt;
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
  GiveBackRoom(size);
}

bool PhysicalMemory::TakeForDriver(Bytes size) {
  std::lock_guard lock(mutex_);
  if (!TakeRoom(size)) return false;
  driver_ += size;
  return true;
}

void PhysicalMemory::GiveBackForDriver(Bytes size) {
  std::lock_guard lock(mutex_);
  driver_ -= size;
  GiveBackRoom(size);
}

Bytes PhysicalMemory::taken_for_driver() const {
  std::lock_guard lock(mutex_);
  return driver_;
}

Bytes PhysicalMemory::used() const {
  std::lock_guard lock(mutex_);
  return used_;
}

Bytes PhysicalMemory::taken() const {
  std::lock_guard lock(mutex_);
  if (node_ == nullptr) return context_ + used_ + driver_;
  return total_ - node_->FreeMemory(slot_) + (has_context_ ? Bytes(0) : context_);
}

Bytes PhysicalMemory::free() const {
  std::lock_guard lock(mutex_);
  return std::max(FreeRoom(), Bytes(0));
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
