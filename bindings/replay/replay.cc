#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#if __has_include(<c10/cuda/PeerToPeerAccess.h>)
#include <c10/cuda/PeerToPeerAccess.h>
#define FRUGAL_C10_HAS_PEER_CACHE
#endif
#include <c10/util/Exception.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "bindings/replay/gpu.h"
#include "bindings/replay/replayer.h"
#include "bindings/replay/request.h"
#include "bindings/replay/watcher.h"

// libc10_cuda exports it but declares it in no header. libtorch_cuda answers it in a whole PyTorch; here
// nobody has, and without an answer c10 calls a null pointer.
namespace c10::cuda::_internal {  // NOLINT(readability-identifier-naming): c10's own name
void setHasPrimaryContext(bool (*has_primary_context)(signed char));
}

namespace frugal::replay {
namespace {

Outcome Fail(Result& result, std::string_view message) {
  result.message = message;
  return Outcome::kFailed;
}

// What libtorch_cuda does for c10 when CUDA is first used.
void StartC10() {
  c10::cuda::_internal::setHasPrimaryContext([](signed char) { return true; });
#ifdef FRUGAL_C10_HAS_PEER_CACHE
  c10::cuda::detail::init_p2p_access_cache(/*num_devices=*/1);
#endif
  c10::cuda::CUDACachingAllocator::init(/*device_count=*/1);
  C10_CUDA_CHECK(cudaSetDevice(0));
}

// Other programs may use the GPU, and the driver needs some of it.
constexpr size_t kLeftFree = size_t{1} << 30;

void LimitMemory(uint64_t bytes) {
  size_t free = 0;
  size_t total = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  const size_t limit = std::min<size_t>(bytes, free - std::min(free, kLeftFree));
  c10::cuda::CUDACachingAllocator::setMemoryFraction(static_cast<double>(limit) / static_cast<double>(total),
                                                     /*device=*/0);
}

// Repeats the history as often as it is asked for. An allocator may run out of memory in a repetition although the
// first pass fitted: those before it then count.
void Repeat(const Request& request, Replayer& replayer, const Gpu& gpu, Result& result) {
  const double pairs = static_cast<double>(request.event_count - request.initial_count) / 2;
  try {
    for (uint32_t pass = 1; pass < request.passes; ++pass) {
      replayer.FreeAll();
      const Costs before = gpu.CostsSoFar();
      const double ns = replayer.Play(nullptr) / pairs;
      if (!result.ns_per_pair || ns < *result.ns_per_pair) result.ns_per_pair = ns;
      if (request.steady_from == pass * request.event_count) {
        result.steady = gpu.CostsSoFar() - before;
        result.steady_allocations = request.allocation_count;
      }
    }
  } catch (const c10::OutOfMemoryError&) {
  }
}

Outcome CheckOrder(const Gpu& gpu, Result& result) {
  result.order_accesses = gpu.OrderAccesses();
  const uint64_t violations = gpu.OrderViolations();
  if (violations == 0) return Outcome::kCompleted;
  return Fail(result, std::to_string(violations) + " pairs of operations without order, first: " + gpu.OrderReport());
}

Outcome Replay(const Request& request, Result& result) {
  const std::span<const Event> events(request.events, request.event_count);
  if (!Validate(events, request.initial_count, request.allocation_count, request.stream_count)) {
    return Fail(result, "the events are not a history");
  }
  std::unique_ptr<Gpu> gpu = request.real_time == 0 ? FindSimulatedGpu() : nullptr;
  if (gpu == nullptr && request.real_time == 0) return Fail(result, "this process does not run on the simulated GPU");
  StartC10();
  if (request.limit_bytes > 0) LimitMemory(request.limit_bytes);
  if (gpu == nullptr) gpu = MakeRealGpu();
  Replayer replayer(events, request.initial_count, request.allocation_count, request.stream_count, request.stream_lag,
                    *gpu);
  Watcher watcher(request, *gpu, result);
  gpu->Reset();
  try {
    replayer.Play(&watcher);
    watcher.Finish();
  } catch (const c10::OutOfMemoryError& error) {
    result.costs = gpu->CostsSoFar();
    result.peak_reserved_bytes = gpu->MemoryPeak();
    result.failed_at = replayer.position();
    if (CheckOrder(*gpu, result) == Outcome::kFailed) return Outcome::kFailed;
    result.message = error.what_without_backtrace();
    return Outcome::kOutOfMemory;
  }
  result.costs = gpu->CostsSoFar();
  if (request.event_count > request.initial_count) Repeat(request, replayer, *gpu, result);
  return CheckOrder(*gpu, result);
}

}  // namespace
}  // namespace frugal::replay

// What ctypes calls: one recorded history through the CUDA allocator that c10 has now. The Result as JSON, which stays
// as it is until the process ends.
//
// The caller is a process that has a GPU, simulated or real, and libc10 and libc10_cuda loaded, and, where it wants
// another allocator than PyTorch's, has installed that: bindings/frugal_alloc/_planning/replay/worker.py. It calls
// once, from one thread: the clock of the simulated GPU never goes back. Does not throw.
//
// Visible also where the build hides all that does not say otherwise, as CMakeLists.txt does.
extern "C" [[gnu::visibility("default")]] const char* frugal_replay(const frugal::replay::Request* request) {
  static std::string answer;
  frugal::replay::Result result;
  try {
    result.outcome = frugal::replay::Replay(*request, result);
  } catch (const c10::Error& error) {
    result.outcome = frugal::replay::Fail(result, error.what_without_backtrace());
  } catch (const std::exception& error) {
    result.outcome = frugal::replay::Fail(result, error.what());
  }
  answer = frugal::replay::ToJson(result);
  return answer.c_str();
}
