#include "bindings/adapter/mem_pools.h"

#include <cstdlib>
#include <cstring>
#include <utility>

namespace frugal {
namespace {

// It keeps what it is to pause in such pools, and sees calls of cudaMalloc alone.
bool HasMemorySaver() {
  static const char* const preloaded = std::getenv("LD_PRELOAD");
  return preloaded != nullptr && std::strstr(preloaded, "torch_memory_saver") != nullptr;
}

}  // namespace

void MemPools::Add(MempoolId_t pool) {
  // What torch.cuda.MemPool makes is numbered in the second place.
  if (pool.first != 0 || HasMemorySaver()) return;
  absl::MutexLock lock(&mutex_);
  ++pools_[pool].holders;
}

void MemPools::Hold(MempoolId_t pool) {
  absl::MutexLock lock(&mutex_);
  if (const auto found = pools_.find(pool); found != pools_.end()) ++found->second.holders;
}

bool MemPools::LetGo(MempoolId_t pool) {
  absl::MutexLock lock(&mutex_);
  const auto found = pools_.find(pool);
  if (found == pools_.end() || --found->second.holders > 0) return false;
  pools_.erase(found);
  return true;
}

MemPools::Owner MemPools::OwnerOf(MempoolId_t pool) const {
  absl::MutexLock lock(&mutex_);
  const auto found = pools_.find(pool);
  return found == pools_.end() ? Owner::kNative : found->second.owner;
}

bool MemPools::GiveToNative(MempoolId_t pool) {
  absl::MutexLock lock(&mutex_);
  const auto found = pools_.find(pool);
  return found != pools_.end() && std::exchange(found->second.owner, Owner::kNative) == Owner::kOurs;
}

}  // namespace frugal
