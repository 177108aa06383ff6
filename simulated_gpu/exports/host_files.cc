// The kernel's files about memory, as they read on the simulated host: preloaded into programs whose GPU has the host's
// memory (FRUGAL_SIM_UNIFIED). Whatever opens one by the C library gets the simulated text; all else is passed on.

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "simulated_gpu/machine/control.h"

namespace {

constexpr int kRealOne = -2;

bool MayBeSimulated(const char* path) {
  return path != nullptr && (strcmp(path, "/proc/meminfo") == 0 || strcmp(path, "/proc/self/cgroup") == 0 ||
                             strncmp(path, "/sys/fs/cgroup/memory.", 22) == 0);
}

// A descriptor of the simulated text; -1 with errno set: there is no such file; kRealOne: it is not simulated.
int OpenSimulated(const char* path) {
  if (!MayBeSimulated(path)) return kRealOne;
  // The driver comes with the runtime, which programs may load after they have begun.
  const auto file = reinterpret_cast<decltype(&frugal_sim_host_file)>(dlsym(RTLD_DEFAULT, "frugal_sim_host_file"));
  char text[4096];
  const int64_t size = file == nullptr ? -1 : file(path, text, sizeof(text));
  if (size < 0) return kRealOne;
  if (size == 0 || size > static_cast<int64_t>(sizeof(text))) {
    errno = ENOENT;
    return -1;
  }
  const int descriptor = memfd_create("simulated", MFD_CLOEXEC);
  if (descriptor < 0) return -1;
  if (write(descriptor, text, static_cast<size_t>(size)) != size || lseek(descriptor, 0, SEEK_SET) != 0) {
    close(descriptor);
    errno = EIO;
    return -1;
  }
  return descriptor;
}

FILE* OpenStream(const char* function, const char* path, const char* mode) {
  const int simulated = OpenSimulated(path);
  if (simulated != kRealOne) return simulated < 0 ? nullptr : fdopen(simulated, "r");
  return reinterpret_cast<FILE* (*)(const char*, const char*)>(dlsym(RTLD_NEXT, function))(path, mode);
}

int OpenFile(const char* function, const char* path, int flags, unsigned mode) {
  const int simulated = OpenSimulated(path);
  if (simulated != kRealOne) return simulated;
  return reinterpret_cast<int (*)(const char*, int, ...)>(dlsym(RTLD_NEXT, function))(path, flags, mode);
}

int OpenFileAt(const char* function, int folder, const char* path, int flags, unsigned mode) {
  const int simulated = OpenSimulated(path);
  if (simulated != kRealOne) return simulated;
  return reinterpret_cast<int (*)(int, const char*, int, ...)>(dlsym(RTLD_NEXT, function))(folder, path, flags, mode);
}

}  // namespace

// Without the third argument where there is none, its register holds anything, which the kernel does not look at then.

extern "C" {

int open(const char* path, int flags, unsigned mode) { return OpenFile("open", path, flags, mode); }
int open64(const char* path, int flags, unsigned mode) { return OpenFile("open64", path, flags, mode); }
int __open_2(const char* path, int flags) { return OpenFile("open", path, flags, 0); }
int __open64_2(const char* path, int flags) { return OpenFile("open64", path, flags, 0); }
int openat(int folder, const char* path, int flags, unsigned mode) {
  return OpenFileAt("openat", folder, path, flags, mode);
}
int openat64(int folder, const char* path, int flags, unsigned mode) {
  return OpenFileAt("openat64", folder, path, flags, mode);
}
FILE* fopen(const char* path, const char* mode) { return OpenStream("fopen", path, mode); }
FILE* fopen64(const char* path, const char* mode) { return OpenStream("fopen64", path, mode); }

}  // extern "C"
