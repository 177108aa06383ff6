// Which GPU may reach which other's memory.

#pragma once

#include <mutex>
#include <set>
#include <utility>

#include "simulated_gpu/machine/error.h"

namespace frugal::sim {

// Thread-safe.
class Peers {
 public:
  // Other GPUs whose memory one GPU may reach at the same time, as CUDA has it.
  static constexpr int kMost = 8;

  // From now on `gpu` may reach the segments of `peer`. A call that fails has changed nothing.
  Error Enable(int gpu, int peer) {
    std::lock_guard lock(mutex_);
    if (enabled_.contains({gpu, peer})) return Error::kPeerAccessAlreadyEnabled;
    int peers = 0;
    for (const auto& [of, other] : enabled_) peers += of == gpu ? 1 : 0;
    if (peers >= kMost) return Error::kTooManyPeers;
    enabled_.emplace(gpu, peer);
    return Error::kSuccess;
  }
  Error Disable(int gpu, int peer) {
    std::lock_guard lock(mutex_);
    return enabled_.erase({gpu, peer}) ? Error::kSuccess : Error::kPeerAccessNotEnabled;
  }

  bool IsEnabled(int gpu, int peer) const {
    std::lock_guard lock(mutex_);
    return enabled_.contains({gpu, peer});
  }
  // How many other GPUs may reach the memory of `gpu`.
  int CountInto(int gpu) const {
    std::lock_guard lock(mutex_);
    int count = 0;
    for (const auto& [of, peer] : enabled_) count += peer == gpu ? 1 : 0;
    return count;
  }

 private:
  mutable std::mutex mutex_;
  std::set<std::pair<int, int>> enabled_;
};

}  // namespace frugal::sim
