// Copies and fills, which are real: device memory is host memory here.

#include <cuda_runtime_api.h>

#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "cuda/simulated/exports/runtime.h"

using frugal::Address;
using frugal::sim::Error;
using frugal::sim::Machine;
using frugal::sim::MemoryUse;
using frugal::sim::Nanoseconds;
using frugal::sim::OnStream;
using frugal::sim::OutsideCapture;
using frugal::sim::Stream;
using frugal::sim::ToBytes;
using frugal::sim::Work;
using frugal::sim::WorkKind;

namespace {

bool IsDevice(Machine& machine, const void* pointer) { return machine.FindAllocation(Address(pointer)).has_value(); }

// Without backing nothing is behind a device's addresses: what would touch them is left out.
bool IsOutOfReach(Machine& machine, const void* pointer) {
  return machine.configuration().backing == frugal::sim::Backing::kNone && IsDevice(machine, pointer);
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

Work Copy(Machine& machine, void* to, const void* from, size_t size) {
  Work work{WorkKind::kCopy, CopyTime(machine, to, from, size), nullptr};
  Declare(machine, work, "copy", {{Address(from), ToBytes(size), false}, {Address(to), ToBytes(size), true}});
  if (!IsOutOfReach(machine, to) && !IsOutOfReach(machine, from)) {
    work.run = [=] { std::memmove(to, from, size); };
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
  if (!IsOutOfReach(machine, to) && !IsOutOfReach(machine, from)) {
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
  if (!IsOutOfReach(machine, start)) {
    work.run = [=] { std::memset(start, value, size); };
  }
  return work;
}

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
        const bool captured = machine.streams().captures().InfoOf(found).state != frugal::sim::Capture::State::kEnded;
        const bool waits = !captured && (IsPageable(machine, to) || IsPageable(machine, from));
        if (waits) machine.streams().WaitForStream(found);
        const Error error = machine.streams().Enqueue(found, make(machine));
        if (waits && machine.late() != nullptr) machine.streams().WaitForStream(found);
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

cudaError_t cudaMemcpy(void* to, const void* from, size_t size, cudaMemcpyKind) {
  return Blocking([&](Machine& machine) { return Copy(machine, to, from, size); });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size, cudaMemcpyKind, cudaStream_t stream) {
  return CopyInOrder(stream, to, from, [&](Machine& machine) { return Copy(machine, to, from, size); });
}

cudaError_t cudaMemcpyPeer(void* to, int, const void* from, int, size_t size) {
  return Blocking([&](Machine& machine) { return Copy(machine, to, from, size); });
}

cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t size, cudaStream_t stream) {
  return InOrder(stream, [&](Machine& machine) { return Copy(machine, to, from, size); });
}

cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                         cudaMemcpyKind) {
  return Blocking([&](Machine& machine) { return CopyRows(machine, to, to_pitch, from, from_pitch, width, height); });
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind, cudaStream_t stream) {
  return CopyInOrder(stream, to, from, [&](Machine& machine) {
    return CopyRows(machine, to, to_pitch, from, from_pitch, width, height);
  });
}

cudaError_t cudaMemset(void* start, int value, size_t size) {
  return Blocking([&](Machine& machine) { return Fill(machine, start, value, size); });
}

cudaError_t cudaMemsetAsync(void* start, int value, size_t size, cudaStream_t stream) {
  return InOrder(stream, [&](Machine& machine) { return Fill(machine, start, value, size); });
}
