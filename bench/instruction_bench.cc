// Loops of allocations and frees through c10's interface that make no driver call, for callgrind to count the
// instructions of: nothing but the loops is counted, and each writes an output file of its own, with the loop's name.
// What is printed is the host memory that the allocator's books take for each live block.
//
//   valgrind --tool=callgrind --instr-atstart=no --callgrind-out-file=FILE instruction_bench

#include <c10/cuda/CUDACachingAllocator.h>
#include <valgrind/callgrind.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/churn.h"
#include "bench/start_torch.h"
#include "bindings/c_api/c_api.h"

namespace frugal::bench {
namespace {

using c10::cuda::CUDACachingAllocator::CUDAAllocator;

constexpr int kIterations = 10'000;

template <typename F>
void Count(const std::string& name, F&& iteration, int iterations = kIterations) {
  CALLGRIND_START_INSTRUMENTATION;
  CALLGRIND_ZERO_STATS;
  for (int i = 0; i < iterations; ++i) iteration();
  const std::string label = name + " " + std::to_string(iterations);
  CALLGRIND_DUMP_STATS_AT(label.c_str());
  CALLGRIND_STOP_INSTRUMENTATION;
}

// A block allocated and freed, with some others live so that free memory is not in one piece.
void CountPairs(const std::string& name, CUDAAllocator& allocator) {
  std::vector<c10::DataPtr> others;
  for (size_t kib = 1; kib <= 64; ++kib) others.push_back(allocator.allocate(kib << 10));
  constexpr std::array kSizes = {size_t{512}, size_t{32} << 10, size_t{1} << 20, size_t{20} << 20, size_t{1} << 30};
  // A free looks its range up among all of them: as many now as for the pairs that are counted later.
  for (size_t size : kSizes) allocator.allocate(size).clear();
  for (size_t size : kSizes) {
    Count(name + " pair " + std::to_string(size), [&] { allocator.allocate(size).clear(); });
  }
}

// The same in a private pool, as of a CUDA graph.
void CountPairsInPool(const std::string& name, CUDAAllocator& allocator, c10::MempoolId_t pool) {
  allocator.beginAllocateToPool(0, pool, [](cudaStream_t) { return true; });
  CountPairs(name + " pool", allocator);
  allocator.endAllocateToPool(0, pool);
  allocator.releasePool(0, pool);
}

// A block freed and another allocated among many.
void CountChurn(const std::string& name, CUDAAllocator& allocator, size_t live, int iterations = kIterations) {
  Churn churn(allocator, live);
  const auto books = static_cast<size_t>(churn.Prepare());
  std::printf("%s churn %zu: %zu bytes a block\n", name.c_str(), live, books / live);
  Count(
      name + " churn " + std::to_string(live), [&] { churn.Step(); }, iterations);
}

void CountAll() {
  CUDAAllocator& native = StartTorch("track:off");
  CUDAAllocator& frugal = *c10::cuda::CUDACachingAllocator::get();
  CountPairs("native", native);
  CountPairs("frugal", frugal);
  CountPairsInPool("native", native, {1, 0});
  CountPairsInPool("frugal", frugal, {2, 0});
  // The free memory is as it was then.
  frugal_trim();
  frugal_enable_with("self_check:off");
  CountPairs("frugal unchecked", frugal);
  frugal_enable_with("self_check:fast");
  CountChurn("native", native, 1'000);
  CountChurn("frugal", frugal, 1'000);
  CountChurn("frugal", frugal, 1'000'000);
  frugal_trim();
  frugal_enable_with("self_check:full");
  CountChurn("frugal fully checked", frugal, 1'000, 20);
  frugal_enable_with("self_check:fast");
  // From here on allocations are recorded by site. The free memory is as it was before the churn.
  frugal_trim();
  frugal_enable_with("track:on");
  // Beyond those that every thread records whatever their size.
  for (int i = 0; i < 2 * kIterations; ++i) frugal.allocate(size_t{1} << 20).clear();
  CountPairs("frugal tracked", frugal);
}

}  // namespace
}  // namespace frugal::bench

int main() {
  frugal::bench::CountAll();
  return 0;
}
