#include "simulated_gpu/libraries/stand_in.h"

#include <cstddef>
#include <cstdint>

namespace frugal::sim {
namespace {

// dim3, as it crosses the interface.
struct Extent {
  unsigned x = 1, y = 1, z = 1;
};

// Stands for every kernel of these libraries; never run.
void NoKernel() {}

}  // namespace

bool LaunchKernel(Stream stream) {
  return Ask<"cudaLaunchKernel">(reinterpret_cast<const void*>(&NoKernel), Extent(), Extent(),
                                 static_cast<void**>(nullptr), size_t{0}, stream) == 0;
}

bool ClearMemory(void* memory, size_t bytes, Stream stream) {
  return memory == nullptr || Ask<"cudaMemsetAsync">(memory, 0, bytes, stream) == 0;
}

void NoteWorkspace(const void* memory, size_t bytes) {
  (void)Ask<"frugal_sim_note_workspace">(memory, uint64_t{bytes});
}

void ReportUnsupported(const char* function) { (void)Ask<"frugal_sim_unsupported">(function); }

}  // namespace frugal::sim
