// How long a rank waits for others, and what ends it.

#ifndef FRUGAL_CUDA_SIMULATED_LIBRARIES_NCCL_WAITING_H_
#define FRUGAL_CUDA_SIMULATED_LIBRARIES_NCCL_WAITING_H_

#include <chrono>
#include <cstdint>
#include <functional>

#include "cuda/simulated/libraries/nccl_exchange.h"
#include "cuda/simulated/libraries/nccl_types.h"

namespace frugal::sim::nccl {

// One stretch of time without anything new.
class Waiting {
 public:
  // As long as PyTorch waits for a rank by default (10 minutes), and some more: its own answer is to come first.
  static constexpr std::chrono::minutes kMost{15};
  // Between two looks at whether the others are alive.
  static constexpr std::chrono::milliseconds kBetweenLooks{100};

  // Waits for something to happen in the exchange, up to `most`. Not kSuccess, explained: a rank that is `needed` has
  // been gone for longer than this look, so that whatever it wrote last has been seen, or the time is over.
  Result On(Exchange& exchange, uint32_t seen, const std::function<bool(int rank)>& needed,
            std::chrono::milliseconds most = kBetweenLooks);
  // Something has happened.
  void StartAnew() { *this = Waiting(); }

 private:
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point looked_ = began_;
  int gone_ = -1;  // The rank that was found gone at the look before.
};

}  // namespace frugal::sim::nccl

#endif  // FRUGAL_CUDA_SIMULATED_LIBRARIES_NCCL_WAITING_H_
