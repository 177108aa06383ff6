#include "bindings/adapter/routing.h"

#include <algorithm>
#include <utility>

namespace frugal {

bool Routing::SetAll(std::atomic<bool>& flag, bool value) {
  const bool before = flag.exchange(value);
  if (before != value) exceptions_.fetch_add(value ? 1 : -1, std::memory_order_release);
  return before;
}

bool Routing::GoesToNative(c10::DeviceIndex device, cudaStream_t stream) const {
  if (passthrough_.load(std::memory_order_relaxed) || uncached_.load(std::memory_order_relaxed)) return true;
  absl::MutexLock lock(&mutex_);
  return std::any_of(routes_.begin(), routes_.end(),
                     [&](const Route& route) { return route.device == device && route.filter(stream); });
}

void Routing::Open(c10::DeviceIndex device, MempoolId_t pool, Filter filter) {
  absl::MutexLock opening(&opening_[static_cast<size_t>(device)]);
  absl::MutexLock lock(&mutex_);
  routes_.push_back({device, pool, std::move(filter)});
  exceptions_.fetch_add(1, std::memory_order_release);
}

void Routing::Close(c10::DeviceIndex device, MempoolId_t pool) {
  absl::MutexLock lock(&mutex_);
  // The latest, as use_mem_pool may be nested.
  auto route = std::find_if(routes_.rbegin(), routes_.rend(),
                            [&](const Route& r) { return r.device == device && r.pool == pool; });
  // A pool that was opened before we were installed has no route.
  if (route == routes_.rend()) return;
  routes_.erase(std::next(route).base());
  exceptions_.fetch_sub(1, std::memory_order_release);
}

bool Routing::HasOpenPool(c10::DeviceIndex device) const {
  absl::MutexLock lock(&mutex_);
  return std::any_of(routes_.begin(), routes_.end(), [&](const Route& route) { return route.device == device; });
}

void Routing::WithoutOpenPool(c10::DeviceIndex device, absl::FunctionRef<void()> call) const {
  absl::ReaderMutexLock none_opens(&opening_[static_cast<size_t>(device)]);
  if (!HasOpenPool(device)) call();
}

void Routing::BecomeForkedChild() {
  for (absl::Mutex& opening : opening_) Renew(opening);
  Renew(mutex_);
}

void Routing::SetUseOnOutOfMemory(c10::DeviceIndex device, MempoolId_t pool, bool value) {
  absl::MutexLock lock(&mutex_);
  if (value) {
    pools_for_out_of_memory_.insert({device, pool});
  } else {
    pools_for_out_of_memory_.erase({device, pool});
  }
}

bool Routing::HasPoolForOutOfMemory(c10::DeviceIndex device) const {
  absl::MutexLock lock(&mutex_);
  return std::any_of(pools_for_out_of_memory_.begin(), pools_for_out_of_memory_.end(),
                     [device](const auto& entry) { return entry.first == device; });
}

}  // namespace frugal
