#include "cuda/simulated/libraries/stand_in.h"

#include <dlfcn.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace frugal::sim {
namespace {

// dim3, as it crosses the interface.
struct Extent {
  unsigned x = 1, y = 1, z = 1;
};

using LaunchFunction = int (*)(const void* function, Extent grid, Extent block, void** arguments, size_t shared_memory,
                               Stream stream);

// Stands for every kernel of these libraries; never run.
void NoKernel() {}

// Looked up at run time, so that one stand-in serves whichever CUDA runtime the program has loaded.
LaunchFunction FindLaunchFunction() {
  return reinterpret_cast<LaunchFunction>(dlsym(RTLD_DEFAULT, "cudaLaunchKernel"));
}

}  // namespace

bool LaunchKernel(Stream stream) {
  static const LaunchFunction launch = FindLaunchFunction();
  return launch != nullptr &&
         launch(reinterpret_cast<const void*>(&NoKernel), Extent(), Extent(), nullptr, 0, stream) == 0;
}

void ReportUnsupported(const char* function) {
  static const char* const verbose = std::getenv("FRUGAL_SIM_VERBOSE");
  if (verbose == nullptr || std::strcmp(verbose, "1") != 0) return;
  std::fprintf(stderr, "simulated GPU: %s is not simulated\n", function);
}

}  // namespace frugal::sim
