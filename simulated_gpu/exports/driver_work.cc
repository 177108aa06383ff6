// The driver's copies and fills: what a program that knows no runtime uses, as the GPU check does.

#include <cuda.h>

#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "simulated_gpu/exports/driver.h"
#include "simulated_gpu/machine/graph.h"

namespace frugal::sim {

namespace {

bool Moves(const Machine& machine, size_t size) { return machine.configuration().moves(ToBytes(size)); }

// In the order of the stream; `run` moves the bytes, if any are moved, and `uses` are all that is touched.
CUresult Enqueue(CUstream stream, WorkKind kind, const char* name, size_t size, bool of_host,
                 std::vector<MemoryUse> uses, std::function<void()> run, const char* function = __builtin_FUNCTION()) {
  return OnStream(
      stream,
      [&](Machine& machine, Stream& found) {
        const auto& configuration = machine.configuration();
        Work work{kind, configuration.DurationOf(ToBytes(size), of_host), nullptr};
        if (Moves(machine, size)) work.run = std::move(run);
        if (configuration.wants_uses()) {
          work.name = name;
          work.uses = std::move(uses);
        }
        return machine.streams().Enqueue(found, std::move(work));
      },
      function);
}

CUresult Copy(Address to, Address from, size_t size, bool of_host, CUstream stream,
              const char* function = __builtin_FUNCTION()) {
  return Enqueue(
      stream, WorkKind::kCopy, "copy", size, of_host, {{from, ToBytes(size), false}, {to, ToBytes(size), true}},
      [=] { std::memmove(to.pointer(), from.pointer(), size); }, function);
}

}  // namespace

extern "C" {

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
  return Copy(Address(to), Address(from), size, /*of_host=*/false, stream);
}
CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t size, CUstream stream) {
  return Copy(Address(to), Address(from), size, /*of_host=*/true, stream);
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t size, CUstream stream) {
  return Copy(Address(to), Address(from), size, /*of_host=*/true, stream);
}

CUresult cuMemsetD8Async(CUdeviceptr start, unsigned char value, size_t size, CUstream stream) {
  return Enqueue(stream, WorkKind::kFill, "memset", size, /*of_host=*/false, {{Address(start), ToBytes(size), true}},
                 [=] { std::memset(reinterpret_cast<void*>(start), value, size); });
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
