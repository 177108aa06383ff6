#include "bindings/replay/replay.h"

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
#include <optional>
#include <span>
#include <string_view>

#include "bindings/replay/replayer.h"
#include "bindings/replay/simulated_gpu.h"

// libc10_cuda exports it but declares it in no header. libtorch_cuda answers it in a whole PyTorch; here
// nobody has, and without an answer c10 calls a null pointer.
namespace c10::cuda::_internal {  // NOLINT(readability-identifier-naming): c10's own name
void setHasPrimaryContext(bool (*has_primary_context)(signed char));
}

namespace frugal::replay {
namespace {

void SetMessage(Result& result, std::string_view message) {
  const size_t length = std::min(message.size(), sizeof(result.message) - 1);
  *std::copy_n(message.data(), length, result.message) = '\0';
}

Outcome Fail(Result& result, std::string_view message) {
  SetMessage(result, message);
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

void ReadCounters(const SimulatedGpu& gpu, Result& result) {
  result.peak_reserved_bytes = gpu.memory_peak(0);
  result.driver_ns = gpu.driver_ns();
  std::transform(kCallKinds.begin(), kCallKinds.end(), result.driver_calls, gpu.calls);
}

// The time of the fastest of `passes` repetitions. An allocator may run out of memory in one although
// the first pass fitted: it then counts with those before.
double FastestPass(Replayer& replayer, uint32_t passes, double pairs) {
  double fastest = -1;
  try {
    for (uint32_t pass = 0; pass < passes; ++pass) {
      replayer.FreeAll();
      const double ns = replayer.Play();
      if (fastest < 0 || ns < fastest) fastest = ns;
    }
  } catch (const c10::OutOfMemoryError&) {
  }
  return fastest < 0 ? fastest : fastest / pairs;
}

Outcome Replay(const Request& request, Result& result) {
  const std::span<const Event> events(request.events, request.event_count);
  if (!Validate(events, request.initial_count, request.allocation_count, request.stream_count)) {
    return Fail(result, "the events are not a history");
  }
  const std::optional<SimulatedGpu> gpu = SimulatedGpu::Find();
  if (!gpu) return Fail(result, "this process does not run on the simulated GPU");

  StartC10();
  Replayer replayer(events, request.initial_count, request.allocation_count, request.stream_count, *gpu);
  gpu->reset_counters();
  try {
    replayer.Play();
  } catch (const c10::OutOfMemoryError& error) {
    ReadCounters(*gpu, result);
    result.failed_at = replayer.position();
    SetMessage(result, error.what_without_backtrace());
    return Outcome::kOutOfMemory;
  }
  ReadCounters(*gpu, result);
  const double pairs = static_cast<double>(request.event_count - request.initial_count) / 2;
  if (request.passes > 1 && pairs > 0) result.ns_per_pair = FastestPass(replayer, request.passes - 1, pairs);
  return Outcome::kCompleted;
}

}  // namespace
}  // namespace frugal::replay

extern "C" frugal::replay::Outcome frugal_replay(const frugal::replay::Request* request,
                                                 frugal::replay::Result* result) {
  *result = {};
  result->ns_per_pair = -1;
  try {
    return frugal::replay::Replay(*request, *result);
  } catch (const c10::Error& error) {
    return frugal::replay::Fail(*result, error.what_without_backtrace());
  } catch (const std::exception& error) {
    return frugal::replay::Fail(*result, error.what());
  }
}
