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
#include <array>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "bindings/replay/replayer.h"
#include "bindings/replay/simulated_gpu.h"
#include "bindings/replay/watcher.h"

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

// Repeats the history as often as it is asked for. An allocator may run out of memory in a repetition although the
// first pass fitted: those before it then count.
void Repeat(const Request& request, Replayer& replayer, const SimulatedGpu& gpu, Result& result) {
  const double pairs = static_cast<double>(request.event_count - request.initial_count) / 2;
  try {
    for (uint32_t pass = 1; pass < request.passes; ++pass) {
      replayer.FreeAll();
      const Costs before = ReadCosts(gpu);
      const double ns = replayer.Play(nullptr) / pairs;
      if (result.ns_per_pair < 0 || ns < result.ns_per_pair) result.ns_per_pair = ns;
      if (request.steady_from == pass * request.event_count) {
        result.steady = Difference(ReadCosts(gpu), before);
        result.steady_allocations = request.allocation_count;
      }
    }
  } catch (const c10::OutOfMemoryError&) {
  }
}

Outcome CheckOrder(const SimulatedGpu& gpu, Result& result) {
  result.order_accesses = gpu.order_accesses();
  const uint64_t violations = gpu.order_violations();
  if (violations == 0) return Outcome::kCompleted;
  std::array<char, sizeof(result.message)> report;
  gpu.order_report(report.data(), report.size());
  return Fail(result, std::to_string(violations) + " pairs of operations without order, first: " + report.data());
}

Outcome Replay(const Request& request, Result& result) {
  const std::span<const Event> events(request.events, request.event_count);
  if (!Validate(events, request.initial_count, request.allocation_count, request.stream_count)) {
    return Fail(result, "the events are not a history");
  }
  const std::optional<SimulatedGpu> gpu = SimulatedGpu::Find();
  if (!gpu) return Fail(result, "this process does not run on the simulated GPU");

  StartC10();
  Replayer replayer(events, request.initial_count, request.allocation_count, request.stream_count, request.stream_lag,
                    *gpu);
  Watcher watcher(request, *gpu, result);
  gpu->reset_counters();
  try {
    replayer.Play(&watcher);
    watcher.Finish();
  } catch (const c10::OutOfMemoryError& error) {
    result.costs = ReadCosts(*gpu);
    result.peak_reserved_bytes = gpu->memory_peak(0);
    result.failed_at = replayer.position();
    if (CheckOrder(*gpu, result) == Outcome::kFailed) return Outcome::kFailed;
    SetMessage(result, error.what_without_backtrace());
    return Outcome::kOutOfMemory;
  }
  result.costs = ReadCosts(*gpu);
  if (request.event_count > request.initial_count) Repeat(request, replayer, *gpu, result);
  return CheckOrder(*gpu, result);
}

}  // namespace
}  // namespace frugal::replay

// Visible also where the build hides all that does not say otherwise, as CMakeLists.txt does.
extern "C" [[gnu::visibility("default")]] frugal::replay::Outcome frugal_replay(const frugal::replay::Request* request,
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
