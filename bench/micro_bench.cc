// The cost of one allocation and its free, hot: through the policy alone, and through c10's interface with PyTorch's
// native allocator and with ours, side by side in one process.
//
//   Pairs        by size, on one thread and on four with a stream each
//   Streams      by the number of streams that one thread takes turns with
//   LiveBlocks   a free and an allocation, by the number of blocks live meanwhile; with the host memory that the
//                allocator's books take for each of them

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "allocator/device_allocator.h"
#include "bench/churn.h"
#include "bench/start_torch.h"
#include "benchmark/benchmark.h"
#include "simulated_gpu/machine/simulated_device.h"

namespace frugal::bench {
namespace {

using c10::cuda::CUDACachingAllocator::CUDAAllocator;

enum class Which { kNative, kFrugal };

CUDAAllocator* native = nullptr;

template <Which which>
CUDAAllocator& Allocator() {
  return which == Which::kNative ? *native : *c10::cuda::CUDACachingAllocator::get();
}

// Other blocks that are live meanwhile, so that the free blocks are not all in one piece.
constexpr size_t kOthers = 64;

void PolicyPairs(benchmark::State& state) {
  sim::SimulatedDevice device({.memory = GiB(64)});
  AddressDirectory directory;
  DeviceAllocator allocator(device, directory, nullptr);
  const Bytes size(state.range(0));
  const Stream stream{1};
  for (size_t i = 0; i < kOthers; ++i) {
    benchmark::DoNotOptimize(allocator.Allocate(KiB(static_cast<int64_t>(i) + 1), stream));
  }
  for (auto _ : state) {
    const Address block = allocator.Allocate(size, stream)->address;
    benchmark::DoNotOptimize(allocator.Free(block));
  }
}

template <Which which>
void Pairs(benchmark::State& state) {
  CUDAAllocator& allocator = Allocator<which>();
  const auto size = static_cast<size_t>(state.range(0));
  if (state.threads() > 1) c10::cuda::setCurrentCUDAStream(c10::cuda::getStreamFromPool());
  std::vector<c10::DataPtr> others;
  for (size_t i = 0; i < kOthers; ++i) others.push_back(allocator.allocate((i + 1) << 10));
  for (auto _ : state) {
    c10::DataPtr block = allocator.allocate(size);
    benchmark::DoNotOptimize(block.get());
  }
}

template <Which which>
void Streams(benchmark::State& state) {
  CUDAAllocator& allocator = Allocator<which>();
  std::vector<c10::cuda::CUDAStream> streams;
  for (int64_t i = 0; i < state.range(0); ++i) streams.push_back(c10::cuda::getStreamFromPool());
  size_t turn = 0;
  for (auto _ : state) {
    void* block = allocator.raw_alloc_with_stream(4096, streams[turn].stream());
    allocator.raw_delete(block);
    if (++turn == streams.size()) turn = 0;
  }
}

template <Which which>
void LiveBlocks(benchmark::State& state) {
  const auto live = static_cast<size_t>(state.range(0));
  Churn churn(Allocator<which>(), live);
  // On the simulated GPU, its own books for each 2 MiB are in here too.
  const auto books = static_cast<double>(churn.Prepare());
  for (auto _ : state) churn.Step();
  state.counters["bytes_per_block"] = books / static_cast<double>(live);
}

// 512 B to 1 GiB.
void Sizes(benchmark::internal::Benchmark* bench) { bench->RangeMultiplier(64)->Range(512, int64_t{1} << 30); }
void FourThreads(benchmark::internal::Benchmark* bench) { bench->Arg(4096)->Arg(16 << 20)->Threads(4)->UseRealTime(); }
void StreamCounts(benchmark::internal::Benchmark* bench) { bench->Arg(1)->Arg(4)->Arg(16); }
// Once each, so that what the first run leaves behind is not taken for the second's.
void BlockCounts(benchmark::internal::Benchmark* bench) { bench->Arg(1'000)->Arg(1'000'000)->Iterations(1'000'000); }

BENCHMARK(PolicyPairs)->Apply(Sizes);
BENCHMARK_TEMPLATE(Pairs, Which::kNative)->Apply(Sizes);
BENCHMARK_TEMPLATE(Pairs, Which::kFrugal)->Apply(Sizes);
BENCHMARK_TEMPLATE(Pairs, Which::kNative)->Apply(FourThreads);
BENCHMARK_TEMPLATE(Pairs, Which::kFrugal)->Apply(FourThreads);
BENCHMARK_TEMPLATE(Streams, Which::kNative)->Apply(StreamCounts);
BENCHMARK_TEMPLATE(Streams, Which::kFrugal)->Apply(StreamCounts);
BENCHMARK_TEMPLATE(LiveBlocks, Which::kNative)->Apply(BlockCounts);
BENCHMARK_TEMPLATE(LiveBlocks, Which::kFrugal)->Apply(BlockCounts);

}  // namespace
}  // namespace frugal::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  frugal::bench::native = &frugal::bench::StartTorch();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
