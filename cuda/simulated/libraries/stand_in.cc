#include "cuda/simulated/libraries/stand_in.h"

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>

namespace frugal::sim {
namespace {

// dim3, as it crosses the interface.
struct Extent {
  unsigned x = 1, y = 1, z = 1;
};

using LaunchFunction = int (*)(const void* function, Extent grid, Extent block, void** arguments, size_t shared_memory,
                               Stream stream);

using FillFunction = int (*)(void* memory, int value, size_t bytes, Stream stream);

using NoteFunction = void (*)(const void* start, uint64_t bytes);

using ReportFunction = int (*)(const char* function);

// Stands for every kernel of these libraries; never run.
void NoKernel() {}

// Looked up at run time, so that one stand-in serves whichever CUDA runtime the program has loaded.
template <typename Function>
Function Find(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace

bool LaunchKernel(Stream stream) {
  static const LaunchFunction launch = Find<LaunchFunction>("cudaLaunchKernel");
  return launch != nullptr &&
         launch(reinterpret_cast<const void*>(&NoKernel), Extent(), Extent(), nullptr, 0, stream) == 0;
}

bool ClearMemory(void* memory, size_t bytes, Stream stream) {
  static const auto fill = Find<FillFunction>("cudaMemsetAsync");
  return memory == nullptr || (fill != nullptr && fill(memory, 0, bytes, stream) == 0);
}

void NoteWorkspace(const void* memory, size_t bytes) {
  static const auto note = Find<NoteFunction>("frugal_sim_note_workspace");
  if (note != nullptr) note(memory, bytes);
}

void ReportUnsupported(const char* function) {
  static const auto report = Find<ReportFunction>("frugal_sim_unsupported");
  if (report != nullptr) report(function);
}

}  // namespace frugal::sim
