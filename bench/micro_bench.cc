// The cost of one allocation and its free, hot, by size: through the policy alone, and through c10's interface with
// PyTorch's native allocator and with ours, side by side in one process.

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "allocator/device_allocator.h"
#include "benchmark/benchmark.h"
#include "bindings/install.h"
#include "cuda/simulated/simulated_device.h"

// Exported by libc10_cuda, but in no header: libtorch_cuda sets it, and this program does without libtorch_cuda.
namespace c10::cuda::_internal {
void setHasPrimaryContext(bool (*has_primary_context)(signed char device));
}

namespace frugal {
namespace {

using c10::cuda::CUDACachingAllocator::CUDAAllocator;

CUDAAllocator* native = nullptr;

// Other blocks that are live meanwhile, so that the free blocks are not all in one piece.
constexpr int kLiveBlocks = 64;

void Policy(benchmark::State& state) {
  sim::SimulatedDevice device({.memory = GiB(64)});
  AddressDirectory directory;
  DeviceAllocator allocator(device, directory, nullptr);
  const Bytes size(state.range(0));
  const Stream stream{1};
  std::vector<Address> live;
  for (int i = 0; i < kLiveBlocks; ++i) live.push_back(allocator.Allocate(KiB(i + 1), stream)->address);
  for (auto _ : state) {
    const Address block = allocator.Allocate(size, stream)->address;
    benchmark::DoNotOptimize(allocator.Free(block));
  }
  for (Address block : live) benchmark::DoNotOptimize(allocator.Free(block));
}

void ThroughC10(benchmark::State& state, CUDAAllocator& allocator) {
  const auto size = static_cast<size_t>(state.range(0));
  std::vector<c10::DataPtr> live;
  for (int i = 0; i < kLiveBlocks; ++i) live.push_back(allocator.allocate(static_cast<size_t>(i + 1) << 10));
  for (auto _ : state) {
    c10::DataPtr block = allocator.allocate(size);
    benchmark::DoNotOptimize(block.get());
  }
}

void Native(benchmark::State& state) { ThroughC10(state, *native); }
void Frugal(benchmark::State& state) { ThroughC10(state, *c10::cuda::CUDACachingAllocator::get()); }

// 512 B to 1 GiB.
void Sizes(benchmark::internal::Benchmark* bench) { bench->RangeMultiplier(64)->Range(512, int64_t{1} << 30); }
BENCHMARK(Policy)->Apply(Sizes);
BENCHMARK(Native)->Apply(Sizes);
BENCHMARK(Frugal)->Apply(Sizes);

void StartTorch() {
  c10::cuda::_internal::setHasPrimaryContext([](signed char) { return true; });
  c10::cuda::CUDACachingAllocator::init(1);
  C10_CUDA_CHECK(cudaSetDevice(0));
  native = c10::cuda::CUDACachingAllocator::get();
  const absl::Status enabled = Enable();
  if (enabled.ok()) return;
  std::fprintf(stderr, "micro_bench: %s\n", enabled.ToString().c_str());
  std::exit(2);
}

}  // namespace
}  // namespace frugal

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  frugal::StartTorch();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
