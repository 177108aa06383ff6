// The library for LD_PRELOAD: puts frugal_alloc into programs on LibTorch that know nothing of it, C++ or Python.
//
// It stands before one function of libc10_cuda, which PyTorch calls through the dynamic linker as it starts CUDA, right
// before it makes its allocator: every library of torch is loaded by then, and no CUDA tensor can exist yet. A program
// that never starts CUDA notices nothing. It knows neither torch nor its ABI: the library for the torch that runs is
// found beside it. Loaded into every child, shells included, it needs nothing but libc.

#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr char kName[] = "_ZN3c104cuda28device_count_ensure_non_zeroEv";
constexpr size_t kMostPath = 4096;

void Tell(const char* reason, const char* detail) {
  std::fprintf(stderr, "frugal_alloc: not used: %s%s\n", reason, detail);
}

// `name` in the library `library` if it is loaded, or wherever else a program has it. Python loads torch's libraries
// where RTLD_DEFAULT does not look.
void* FindFunction(const char* library, const char* name, void* elsewhere) {
  void* const loaded = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  void* function = nullptr;
  if (loaded != nullptr) {
    function = dlsym(loaded, name);
    dlclose(loaded);
  }
  return function != nullptr ? function : dlsym(elsewhere, name);
}

// Writes the path of the library for the torch that runs, beside this one. False: there can be none, and it was told.
bool FindLibrary(char (&path)[kMostPath]) {
  void* const function = FindFunction("libtorch_cpu.so", "aoti_torch_abi_version", RTLD_DEFAULT);
  Dl_info self;
  if (function == nullptr || dladdr(reinterpret_cast<void*>(&FindLibrary), &self) == 0) {
    Tell("this program's LibTorch does not tell its version", "");
    return false;
  }
  const uint64_t version = reinterpret_cast<uint64_t (*)()>(function)();
  const char* const slash = std::strrchr(self.dli_fname, '/');
  const int folder = slash == nullptr ? 0 : static_cast<int>(slash - self.dli_fname) + 1;
  const int length = std::snprintf(path, sizeof(path), "%.*sfrugal_alloc_torch%d%d.so", folder, self.dli_fname,
                                   static_cast<int>(version >> 56), static_cast<int>(version >> 48 & 0xff));
  return length > 0 && length < static_cast<int>(sizeof(path));
}

void Enable() {
  char path[kMostPath];
  if (!FindLibrary(path)) return;
  void* const library = dlopen(path, RTLD_NOW);
  if (library == nullptr) return Tell("there is no library for this program's torch: ", dlerror());
  const auto enable = reinterpret_cast<int (*)()>(dlsym(library, "frugal_enable"));
  const auto last_error = reinterpret_cast<const char* (*)()>(dlsym(library, "frugal_last_error"));
  const auto unfollowed = reinterpret_cast<const char* (*)(const char*)>(dlsym(library, "frugal_unfollowed_settings"));
  if (enable == nullptr || last_error == nullptr || unfollowed == nullptr) {
    return Tell("another version of it lies beside this library: ", path);
  }
  if (enable() != 0) return Tell(last_error(), "");
  if (const char* warning = unfollowed(nullptr); *warning != '\0') std::fprintf(stderr, "%s\n", warning);
}

bool IsTurnedOff() {
  const char* const value = std::getenv("FRUGAL_ALLOC");
  return value != nullptr && std::strcmp(value, "0") == 0;
}

}  // namespace

namespace c10::cuda {

// As c10/cuda/CUDAFunctions.h declares it, in every torch from 2.9 to 2.15.
__attribute__((visibility("default"))) int8_t device_count_ensure_non_zero() {
  static std::atomic_flag called = ATOMIC_FLAG_INIT;
  const auto real = reinterpret_cast<int8_t (*)()>(FindFunction("libc10_cuda.so", kName, RTLD_NEXT));
  if (real == nullptr) {
    Tell("libc10_cuda has no ", kName);
    std::abort();
  }
  // Where there is no GPU, PyTorch says so first.
  const int8_t count = real();
  if (!called.test_and_set() && !IsTurnedOff()) Enable();
  return count;
}

}  // namespace c10::cuda
