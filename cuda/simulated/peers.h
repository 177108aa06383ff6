// Which GPU may reach which other's memory.

#ifndef FRUGAL_CUDA_SIMULATED_PEERS_H_
#define FRUGAL_CUDA_SIMULATED_PEERS_H_

#include <mutex>
#include <set>
#include <utility>

#include "cuda/simulated/error.h"

namespace frugal::sim {

// Thread-safe.
class Peers {
 public:
  Error Enable(int gpu, int peer) {
    std::lock_guard lock(mutex_);
    return enabled_.emplace(gpu, peer).second ? Error::kSuccess : Error::kPeerAccessAlreadyEnabled;
  }
  Error Disable(int gpu, int peer) {
    std::lock_guard lock(mutex_);
    return enabled_.erase({gpu, peer}) ? Error::kSuccess : Error::kPeerAccessNotEnabled;
  }

 private:
  std::mutex mutex_;
  std::set<std::pair<int, int>> enabled_;
};

}  // namespace frugal::sim

#endif  // FRUGAL_CUDA_SIMULATED_PEERS_H_
