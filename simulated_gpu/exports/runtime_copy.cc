// Copies and fills, which are real unless they are larger than what is kept: device memory is host memory here.

#include <cuda_runtime_api.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "simulated_gpu/exports/observer.h"
#include "simulated_gpu/exports/runtime.h"

namespace frugal::sim {

namespace {

bool IsDevice(Machine& machine, const void* pointer) { return machine.FindAllocation(Address(pointer)).has_value(); }

// What touches so many bytes there is left out: nothing is behind a device's addresses without backing, and nothing
// is kept of what is large if the configuration says so.
bool IsLeftOut(Machine& machine, const void* pointer, size_t size) {
  return !machine.configuration().moves(ToBytes(size)) && IsDevice(machine, pointer);
}

// A copy to there that is left out; without backing nothing ever comes from a device.
bool IsForgottenOnHost(Machine& machine, const void* to) {
  return machine.configuration().backing == Backing::kMemory && !IsDevice(machine, to);
}

bool IsPageable(Machine& machine, const void* pointer) {
  return !IsDevice(machine, pointer) && !machine.host_memory().Contains(pointer);
}

// Declares what `work` touches, of which some may be the host's.
void Declare(Machine& machine, Work& work, const char* name, std::vector<MemoryUse> uses) {
  if (!machine.configuration().wants_uses()) return;
  work.name = name;
  work.uses = std::move(uses);
}

Nanoseconds CopyTime(Machine& machine, const void* to, const void* from, size_t size) {
  const bool of_host = !IsDevice(machine, to) || !IsDevice(machine, from);
  return machine.configuration().DurationOf(ToBytes(size), of_host);
}

// What nobody has kept reads as zeros on the host, where that costs no memory: whole pages of the program's own are
// given back to the kernel. A file that is mapped there stays as it is.
void ForgetOnHost(void* start, size_t size) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = reinterpret_cast<uintptr_t>(start);
  const uintptr_t first = (begin + page - 1) / page * page;
  const uintptr_t last = (begin + size) / page * page;
  if (first >= last) {
    std::memset(start, 0, size);
    return;
  }
  std::memset(start, 0, first - begin);
  std::memset(reinterpret_cast<void*>(last), 0, begin + size - last);
  (void)madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

Work Copy(Machine& machine, void* to, const void* from, size_t size) {
  Work work{WorkKind::kCopy, CopyTime(machine, to, from, size), nullptr};
  Declare(machine, work, "copy", {{Address(from), ToBytes(size), false}, {Address(to), ToBytes(size), true}});
  if (!IsLeftOut(machine, to, size) && !IsLeftOut(machine, from, size)) {
    work.run = [=] { std::memmove(to, from, size); };
  } else if (IsForgottenOnHost(machine, to)) {
    work.run = [=] { ForgetOnHost(to, size); };
  }
  return work;
}

Work CopyRows(Machine& machine, void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
              size_t height) {
  Work work{WorkKind::kCopy, CopyTime(machine, to, from, width * height), nullptr};
  if (machine.configuration().wants_uses()) {
    // Row by row, since other streams may use what lies between them.
    std::vector<MemoryUse> uses;
    for (size_t row = 0; row < height; ++row) {
      uses.push_back({Address(from) + ToBytes(row * from_pitch), ToBytes(width), false});
      uses.push_back({Address(to) + ToBytes(row * to_pitch), ToBytes(width), true});
    }
    Declare(machine, work, "copy of rows", std::move(uses));
  }
  if (!IsLeftOut(machine, to, width * height) && !IsLeftOut(machine, from, width * height)) {
    work.run = [=] {
      for (size_t row = 0; row < height; ++row) {
        std::memmove(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch, width);
      }
    };
  }
  return work;
}

Work Fill(Machine& machine, void* start, int value, size_t size) {
  Work work{WorkKind::kFill, machine.configuration().DurationOf(ToBytes(size)), nullptr};
  Declare(machine, work, "memset", {{Address(start), ToBytes(size), true}});
  if (!IsLeftOut(machine, start, size)) {
    work.run = [=] { std::memset(start, value, size); };
  }
  return work;
}

// The observer hears of a copy from the host to `size` bytes of device memory.
cudaError_t Told(cudaError_t result, const void* to, const void* from, size_t size) {
  if (result != cudaSuccess) return result;
  Machine& machine = TheMachine();
  if (IsDevice(machine, to) && !IsDevice(machine, from)) {
    Tell(Observed::kHostCopy, to, size);
  }
  return result;
}

// From the first row's begin to the last one's end.
size_t SpanOfRows(size_t pitch, size_t width, size_t height) { return height == 0 ? 0 : (height - 1) * pitch + width; }

// The host waits for what was there before, and does the work itself.
template <typename MakeWork>
cudaError_t Blocking(MakeWork make, const char* function = __builtin_FUNCTION()) {
  return OutsideCapture(
      [&](Machine& machine, int gpu) {
        machine.streams().of(gpu).Wait();
        if (const Work work = make(machine); work.run) work.run();
        return Error::kSuccess;
      },
      function);
}

// The driver copies pageable memory in the calling thread, so the host waits for what comes before, and for the copy.
template <typename MakeWork>
cudaError_t CopyInOrder(cudaStream_t stream, const void* to, const void* from, MakeWork make,
                        const char* function = __builtin_FUNCTION()) {
  return OnStream(
      stream,
      [&](Machine& machine, Stream& found) -> Error {
        const bool captured = machine.streams().captures().InfoOf(found).state != Capture::State::kEnded;
        const bool waits = !captured && (IsPageable(machine, to) || IsPageable(machine, from));
        if (waits) machine.streams().WaitForStream(found);
        const Error error = machine.streams().Enqueue(found, make(machine));
        if (waits && machine.configuration().counts_time()) machine.streams().WaitForStream(found);
        return error;
      },
      function);
}

template <typename MakeWork>
cudaError_t InOrder(cudaStream_t stream, MakeWork make, const char* function = __builtin_FUNCTION()) {
  return OnStream(
      stream, [&](Machine& machine, Stream& found) { return machine.streams().Enqueue(found, make(machine)); },
      function);
}

}  // namespace

extern "C" {

cudaError_t cudaMemcpy(void* to, const void* from, size_t size, cudaMemcpyKind) {
  return Told(Blocking([&](Machine& machine) { return Copy(machine, to, from, size); }), to, from, size);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size, cudaMemcpyKind, cudaStream_t stream) {
  const auto copy = [&](Machine& machine) { return Copy(machine, to, from, size); };
  return Told(CopyInOrder(stream, to, from, copy), to, from, size);
}

cudaError_t cudaMemcpyPeer(void* to, int, const void* from, int, size_t size) {
  return Blocking([&](Machine& machine) { return Copy(machine, to, from, size); });
}

cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t size, cudaStream_t stream) {
  return InOrder(stream, [&](Machine& machine) { return Copy(machine, to, from, size); });
}

cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                         cudaMemcpyKind) {
  const auto copy = [&](Machine& machine) { return CopyRows(machine, to, to_pitch, from, from_pitch, width, height); };
  return Told(Blocking(copy), to, from, SpanOfRows(to_pitch, width, height));
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind, cudaStream_t stream) {
  const auto copy = [&](Machine& machine) { return CopyRows(machine, to, to_pitch, from, from_pitch, width, height); };
  return Told(CopyInOrder(stream, to, from, copy), to, from, SpanOfRows(to_pitch, width, height));
}

cudaError_t cudaMemset(void* start, int value, size_t size) {
  return Blocking([&](Machine& machine) { return Fill(machine, start, value, size); });
}

cudaError_t cudaMemsetAsync(void* start, int value, size_t size, cudaStream_t stream) {
  return InOrder(stream, [&](Machine& machine) { return Fill(machine, start, value, size); });
}

}  // extern "C"

}  // namespace frugal::sim
