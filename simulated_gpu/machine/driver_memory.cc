#include "simulated_gpu/machine/driver_memory.h"

#include <new>

namespace frugal::sim {
namespace {

// Pieces that `size` needs.
Bytes Pieces(Bytes size) { return PagesCovering(size).bytes(); }

}  // namespace

Error DriverMemory::Load(int gpu, const void* module) {
  if (!options_.on) return Error::kSuccess;
  std::lock_guard lock(mutex_);
  std::set<const void*>& loaded = gpus_[gpu].modules;
  if (loaded.contains(module)) return Error::kSuccess;
  if (!memory_[gpu]->TakeForDriver(Pieces(options_.module))) return Error::kOutOfMemory;
  loaded.insert(module);
  return Error::kSuccess;
}

void DriverMemory::Unload(const void* module) {
  std::lock_guard lock(mutex_);
  for (size_t gpu = 0; gpu < gpus_.size(); ++gpu) {
    if (gpus_[gpu].modules.erase(module) > 0) memory_[gpu]->GiveBackForDriver(Pieces(options_.module));
  }
}

Error DriverMemory::MakePageTables(int gpu, Address start, Bytes size) {
  if (!options_.on) return Error::kSuccess;
  constexpr auto kEach = static_cast<uint64_t>(kAddressesOfTable.count());
  std::lock_guard lock(mutex_);
  std::set<uint64_t>& tables = gpus_[gpu].tables;
  std::vector<uint64_t> fresh;
  for (uint64_t table = start.value() / kEach; table * kEach < (start + size).value(); ++table) {
    if (!tables.contains(table)) fresh.push_back(table);
  }
  const auto before = static_cast<int64_t>(tables.size());
  const auto after = before + static_cast<int64_t>(fresh.size());
  const Bytes needed = Pieces(kTable * after) - Pieces(kTable * before);
  if (needed > Bytes(0) && !memory_[gpu]->TakeForDriver(needed)) return Error::kOutOfMemory;
  tables.insert(fresh.begin(), fresh.end());
  return Error::kSuccess;
}

Error DriverMemory::MakeLocalMemory(int gpu, Bytes size) {
  if (!options_.on) return Error::kSuccess;
  std::lock_guard lock(mutex_);
  Bytes& local = gpus_[gpu].local;
  if (Pieces(size) <= local) return Error::kSuccess;
  if (!memory_[gpu]->TakeForDriver(Pieces(size) - local)) return Error::kOutOfMemory;
  local = Pieces(size);
  return Error::kSuccess;
}

Error DriverMemory::MakeStream(int gpu) {
  if (!options_.on) return Error::kSuccess;
  std::lock_guard lock(mutex_);
  int64_t& streams = gpus_[gpu].streams;
  if (streams % kStreamsOfPiece == 0 && !memory_[gpu]->TakeForDriver(kPiece)) return Error::kOutOfMemory;
  ++streams;
  return Error::kSuccess;
}

void DriverMemory::BecomeForkedChild() { new (&mutex_) std::mutex; }

}  // namespace frugal::sim
