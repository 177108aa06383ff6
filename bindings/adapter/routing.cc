#include "bindings/adapter/routing.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "bindings/adapter/pool_streams.h"

namespace frugal {
namespace {

// How often the calling thread has entered.
thread_local int cuda_malloc_depth = 0;

}  // namespace

bool Routing::SetAll(std::atomic<bool>& flag, bool value) {
  const bool before = flag.exchange(value);
  if (before != value) exceptions_.fetch_add(value ? 1 : -1, std::memory_order_release);
  return before;
}

void Routing::SetCudaMalloc(bool value) { SetAll(cuda_malloc_, value); }

bool Routing::EnterCudaMalloc() {
  if (cuda_malloc_depth++ > 0) return false;
  exceptions_.fetch_add(1, std::memory_order_release);
  return true;
}

bool Routing::LeaveCudaMalloc() {
  if (cuda_malloc_depth == 0 || --cuda_malloc_depth > 0) return false;
  exceptions_.fetch_sub(1, std::memory_order_release);
  return true;
}

MemoryKind Routing::Kind() const {
  return cuda_malloc() || cuda_malloc_depth > 0 ? MemoryKind::kSegment : MemoryKind::kMovable;
}

bool Routing::AllGoesToNative() const {
  return passthrough_.load(std::memory_order_relaxed) || uncached_.load(std::memory_order_relaxed);
}

Routing::Destination Routing::DestinationOf(c10::DeviceIndex device, cudaStream_t stream) const {
  if (AllGoesToNative()) return {true};
  absl::MutexLock lock(&mutex_);
  // The latest, as native has it.
  const auto route = std::find_if(routes_.rbegin(), routes_.rend(),
                                  [&](const Route& r) { return r.device == device && r.filter(stream); });
  if (route == routes_.rend()) return {false, kDefaultPool, Kind()};
  route->was_captured |= route->may_capture;
  const bool may_be_captured = std::any_of(routes_.begin(), routes_.end(), [device](const Route& open) {
    return open.device == device && open.may_capture;
  });
  return {false, route->pool, std::max(route->kind, Kind()), 0, may_be_captured};
}

bool Routing::Route::IsOver() const { return was_captured && stream.has_value() && !IsCaptured(*stream); }

void Routing::Open(c10::DeviceIndex device, MempoolId_t pool, MemoryKind kind, Filter filter, bool may_capture,
                   std::optional<cudaStream_t> stream) {
  std::optional<absl::MutexLock> opening_for_capture;
  if (may_capture) opening_for_capture.emplace(&opening_for_capture_[static_cast<size_t>(device)]);
  absl::MutexLock lock(&mutex_);
  routes_.push_back({device, pool, kind, std::move(filter), may_capture, stream});
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

void Routing::SetKind(c10::DeviceIndex device, MempoolId_t pool, MemoryKind kind) {
  absl::MutexLock lock(&mutex_);
  for (Route& route : routes_) {
    if (route.device == device && route.pool == pool) route.kind = kind;
  }
}

bool Routing::HasOpenPool(c10::DeviceIndex device) const {
  absl::MutexLock lock(&mutex_);
  return std::any_of(routes_.begin(), routes_.end(),
                     [&](const Route& route) { return route.device == device && !route.IsOver(); });
}

bool Routing::MayCapture(c10::DeviceIndex device) const {
  absl::MutexLock lock(&mutex_);
  return std::any_of(routes_.begin(), routes_.end(), [&](const Route& route) {
    return route.device == device && route.may_capture && !route.IsOver();
  });
}

void Routing::WithoutCapture(c10::DeviceIndex device, absl::FunctionRef<void()> call) const {
  absl::ReaderMutexLock none_opens(&opening_for_capture_[static_cast<size_t>(device)]);
  if (!MayCapture(device)) call();
}

void Routing::BecomeForkedChild() {
  for (absl::Mutex& opening : opening_for_capture_) Renew(opening);
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

std::vector<MempoolId_t> Routing::PoolsForOutOfMemory(c10::DeviceIndex device) const {
  absl::MutexLock lock(&mutex_);
  std::vector<MempoolId_t> pools;
  for (const auto& [of, pool] : pools_for_out_of_memory_) {
    if (of == device) pools.push_back(pool);
  }
  return pools;
}

}  // namespace frugal
