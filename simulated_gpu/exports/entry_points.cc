// How a program finds the driver's functions by name.

#include <cuda.h>
#include <dlfcn.h>

#include <string>

#include "simulated_gpu/exports/driver_entry_point.h"

namespace frugal::sim {
namespace {

// This library itself, so that a name means ours even where another libcuda is loaded, too.
void* ThisLibrary() {
  static void* const library = [] {
    Dl_info info;
    if (dladdr(reinterpret_cast<void*>(&FindDriverEntryPoint), &info) == 0) return static_cast<void*>(nullptr);
    return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }();
  return library;
}

// The first CUDA version in which a name means the function with this suffix.
struct Variant {
  const char* suffix;
  int since;
};

}  // namespace

void* FindDriverEntryPoint(const char* name, int cuda_version) {
  // "cuMemFree" means the newest variant that the caller's headers know. Of the suffixes above _v2, few are in use,
  // and those came with CUDA 12 or 13.
  static constexpr Variant kVariants[] = {{"_v4", 13000}, {"_v3", 12030}, {"_v2", 0}, {"", 0}};
  for (const Variant& variant : kVariants) {
    if (cuda_version != 0 && cuda_version < variant.since) continue;
    if (void* found = dlsym(ThisLibrary(), (std::string(name) + variant.suffix).c_str())) return found;
  }
  return nullptr;
}

}  // namespace frugal::sim

CUresult cuGetProcAddress(const char* name, void** function, int cuda_version, cuuint64_t,
                          CUdriverProcAddressQueryResult* result) {
  if (name == nullptr || function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *function = frugal::sim::FindDriverEntryPoint(name, cuda_version);
  const bool found = *function != nullptr;
  if (result != nullptr) *result = found ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

#undef cuGetProcAddress
// Before CUDA 12 there was no result to give.
extern "C" CUresult cuGetProcAddress(const char* name, void** function, int cuda_version, cuuint64_t flags) {
  return cuGetProcAddress_v2(name, function, cuda_version, flags, nullptr);
}
