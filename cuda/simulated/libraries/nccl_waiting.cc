#include "cuda/simulated/libraries/nccl_waiting.h"

#include <string>

#include "cuda/simulated/libraries/nccl_error.h"

namespace frugal::sim::nccl {

Result Waiting::On(Exchange& exchange, uint32_t seen, const std::function<bool(int rank)>& needed,
                   std::chrono::milliseconds most) {
  if (gone_ >= 0) {
    return Explain(kRemoteError, "rank " + std::to_string(gone_) + " of " + std::to_string(exchange.size()) +
                                     " has ended, and rank " + std::to_string(exchange.rank()) + " waits for it");
  }
  exchange.Wait(seen, most);
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_ < kBetweenLooks) return kSuccess;
  looked_ = now;
  for (int rank = 0; rank < exchange.size() && gone_ < 0; ++rank) {
    if (rank != exchange.rank() && needed(rank) && exchange.IsGone(rank)) gone_ = rank;
  }
  if (now - began_ > kMost) {
    return Explain(kRemoteError, "rank " + std::to_string(exchange.rank()) + " has waited for others for too long");
  }
  return kSuccess;
}

}  // namespace frugal::sim::nccl
