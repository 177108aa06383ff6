// A part of libc.so.6 since 2.32 or 2.34, of libpthread.so.0 before.

#include "glibc/symbol_versions.h"

#ifdef __GLIBC__

using Key = unsigned;
using Thread = unsigned long;  // NOLINT(google-runtime-int): glibc's type
using Routine = void*(void*);
using Destructor = void(void*);

FRUGAL_OLD_FUNCTION("2.2.5", int, pthread_create, (void* thread, const void* attributes, Routine* run, void* argument),
                    (thread, attributes, run, argument))
FRUGAL_OLD_FUNCTION("2.2.5", int, pthread_detach, (Thread thread), (thread))
FRUGAL_OLD_FUNCTION("2.2.5", void*, pthread_getspecific, (Key key), (key))
FRUGAL_OLD_FUNCTION("2.2.5", int, pthread_join, (Thread thread, void** result), (thread, result))
FRUGAL_OLD_FUNCTION("2.2.5", int, pthread_key_create, (Key * key, Destructor* destroy), (key, destroy))
FRUGAL_OLD_FUNCTION("2.12", int, pthread_mutex_consistent, (void* mutex), (mutex))
FRUGAL_OLD_FUNCTION("2.2.5", int, pthread_mutexattr_destroy, (void* attributes), (attributes))
FRUGAL_OLD_FUNCTION("2.2.5", int, pthread_mutexattr_init, (void* attributes), (attributes))
FRUGAL_OLD_FUNCTION("2.2.5", int, pthread_mutexattr_setpshared, (void* attributes, int shared), (attributes, shared))
FRUGAL_OLD_FUNCTION("2.12", int, pthread_mutexattr_setrobust, (void* attributes, int robust), (attributes, robust))
FRUGAL_OLD_FUNCTION("2.2.5", int, pthread_once, (int* control, void (*run)()), (control, run))
FRUGAL_OLD_FUNCTION("2.2.5", int, pthread_setspecific, (Key key, const void* value), (key, value))
FRUGAL_OLD_FUNCTION("2.2.5", int, pthread_sigmask, (int how, const void* wanted, void* before), (how, wanted, before))
// NOLINTNEXTLINE(bugprone-reserved-identifier): glibc's name
FRUGAL_OLD_FUNCTION("2.2.5", int, __pthread_key_create, (Key * key, Destructor* destroy), (key, destroy))

// Since 2.32; the C++ library's headers read it. Never true here, so that reference counts are atomic always: a process
// with PyTorch has many threads.
extern "C" {
// NOLINTNEXTLINE(bugprone-reserved-identifier): glibc's name
[[gnu::visibility("hidden")]] extern char __libc_single_threaded;
char __libc_single_threaded = 0;
}

#endif
