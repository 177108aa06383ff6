// A number for each host thread.

#ifndef FRUGAL_CUDA_SIMULATED_THREAD_NUMBER_H_
#define FRUGAL_CUDA_SIMULATED_THREAD_NUMBER_H_

#include <cstdint>

namespace frugal::sim {

// The calling thread's: from 1 on, in the order in which threads ask. No other thread has it, or had it before.
uint64_t ThisThreadNumber();

}  // namespace frugal::sim

#endif  // FRUGAL_CUDA_SIMULATED_THREAD_NUMBER_H_
