// A part of libc.so.6 since 2.34, of libdl.so.2 before.

#include "third_party/glibc/symbol_versions.h"

#ifdef __GLIBC__

FRUGAL_OLD_FUNCTION("2.2.5", int, dladdr, (const void* address, void* info), (address, info))
FRUGAL_OLD_FUNCTION("2.2.5", int, dlclose, (void* library), (library))
FRUGAL_OLD_FUNCTION("2.2.5", char*, dlerror, (), ())
FRUGAL_OLD_FUNCTION("2.3.3", int, dlinfo, (void* library, int request, void* answer), (library, request, answer))
FRUGAL_OLD_FUNCTION("2.2.5", void*, dlopen, (const char* path, int mode), (path, mode))
FRUGAL_OLD_FUNCTION("2.2.5", void*, dlsym, (void* library, const char* symbol), (library, symbol))

#endif
