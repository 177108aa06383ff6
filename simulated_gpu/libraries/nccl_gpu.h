// What NCCL's stand-in asks of the simulated GPU. Where there is none, as in a unit test, nothing happens.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "simulated_gpu/libraries/stand_in.h"

namespace frugal::sim::nccl {

int CurrentGpu();

// Makes a GPU the thread's current one while it lives.
class OnGpu {
 public:
  explicit OnGpu(int gpu);
  ~OnGpu();
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;

 private:
  const int before_;
  const bool changes_;
};

// A number that tells it from other GPUs of the host; 0 if it has none.
uint64_t IdentityOf(int gpu);
struct ComputeCapability {
  int major = 0;
  int minor = 0;
};
ComputeCapability ComputeCapabilityOf(int gpu);

// cudaMalloc and cudaFree; false if they fail.
bool Allocate(void** memory, size_t size);
bool Free(void* memory);
// Takes memory beside what the program allocates, or gives it back where `bytes` is below 0. False if there is no room.
bool TakeForDriver(int gpu, int64_t bytes);

bool IsCapturing(Stream stream);
// What is put on a stream happens when its time comes, and not at once.
bool WorkIsLate();
// Has all work done that was put on any stream of the current GPU, where it is late.
void FinishLateWork();
// The addresses of GPU memory are memory of this process.
bool HasBacking();
// All values are computed, of large tensors, too.
bool HasAllValues();

// Has the stream call `run` whenever it gets there: once, or at each replay of the graph that it is captured into.
bool CallOnStream(Stream stream, std::function<void()> run);

// Of calls that graphs have captured: how many there are, and one of them, for whoever computes what a graph would do.
int CountCaptured();
void ReplayCaptured(int number);

// Declares what a kernel on the stream reads or writes, for the checks of order and of late work.
void DeclareAccess(Stream stream, const void* start, size_t size, bool writes, const char* name);

}  // namespace frugal::sim::nccl
