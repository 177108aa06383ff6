// The driver's copies: what a program that knows no runtime uses, as the GPU check does.

#include <cuda.h>

#include <cstring>
#include <utility>

#include "cuda/simulated/exports/driver.h"
#include "cuda/simulated/graph.h"

namespace frugal::sim {

namespace {

bool Moves(const Machine& machine, size_t size) { return machine.configuration().moves(ToBytes(size)); }

}  // namespace

extern "C" {

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
  return OnStream(stream, [&](Machine& machine, Stream& found) {
    const auto& configuration = machine.configuration();
    const Nanoseconds taken =
        configuration.modelled_time ? configuration.DurationOf(ToBytes(size)) : configuration.kernel;
    Work work{WorkKind::kCopy, taken, nullptr};
    if (Moves(machine, size)) {
      work.run = [=] { std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), size); };
    }
    if (machine.order() != nullptr) {
      work.name = "copy";
      work.uses = {{Address(from), ToBytes(size), false}, {Address(to), ToBytes(size), true}};
    }
    return machine.streams().Enqueue(found, std::move(work));
  });
}

CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t size) {
  return OutsideCapture([&](Machine& machine, int gpu) {
    machine.streams().of(gpu).Wait();
    if (Moves(machine, size)) std::memcpy(to, reinterpret_cast<const void*>(from), size);
    return Error::kSuccess;
  });
}

}  // extern "C"

}  // namespace frugal::sim
