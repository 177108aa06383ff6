// Functions since 2.33; before, glibc's headers made other calls of them, which have stayed.

#include "glibc/symbol_versions.h"

#ifdef __GLIBC__

extern "C" int frugal_fxstat(int version, int file, void* status);
extern "C" int frugal_xstat(int version, const char* path, void* status);
FRUGAL_GLIBC_FUNCTION(frugal_fxstat, __fxstat, "2.2.5");
FRUGAL_GLIBC_FUNCTION(frugal_xstat, __xstat, "2.2.5");

// Of the structure that the status is written to.
#ifdef __x86_64__
constexpr int kVersion = 1;
#else
constexpr int kVersion = 0;
#endif

extern "C" [[gnu::visibility("hidden")]] int fstat(int file, void* status) {
  return frugal_fxstat(kVersion, file, status);
}

extern "C" [[gnu::visibility("hidden")]] int fstat64(int file, void* status) {
  return frugal_fxstat(kVersion, file, status);
}

extern "C" [[gnu::visibility("hidden")]] int stat(const char* path, void* status) {
  return frugal_xstat(kVersion, path, status);
}

extern "C" [[gnu::visibility("hidden")]] int stat64(const char* path, void* status) {
  return frugal_xstat(kVersion, path, status);
}

#endif
