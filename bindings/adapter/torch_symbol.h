// Functions of PyTorch's that lie in a library which ours is not linked with.

#pragma once

#include <dlfcn.h>

namespace frugal {

// The symbol of libtorch_cpu; null: it has none of the name, or is not loaded, as where c10 alone is there.
inline void* FindInTorch(const char* name) {
  // Python loads torch's libraries where RTLD_DEFAULT does not look.
  void* const torch = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  if (torch == nullptr) return nullptr;
  void* const symbol = dlsym(torch, name);
  dlclose(torch);
  return symbol;
}

}  // namespace frugal
