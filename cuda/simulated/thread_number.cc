#include "cuda/simulated/thread_number.h"

#include <atomic>

namespace frugal::sim {

uint64_t ThisThreadNumber() {
  static std::atomic<uint64_t> next{1};
  thread_local uint64_t number = 0;  // none yet
  if (number == 0) number = next++;
  return number;
}

}  // namespace frugal::sim
