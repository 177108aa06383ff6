#ifndef GLIBC_SYMBOL_VERSIONS_H_
#define GLIBC_SYMBOL_VERSIONS_H_

// For functions that glibc has got a new version of since 2.28, if only because they moved from one of its libraries to
// another. A library that is linked on a newer system asks for the new version, and does not load where there is none.
// So each of ours brings hidden functions of those names, which all calls in it go to, those of code that comes
// compiled, too; they ask for the old version, which newer systems go on having.
//
// What is declared here in words of its own must not be seen beside glibc's headers.

#include <features.h>

#ifdef __GLIBC__

// FRUGAL_GLIBC_FUNCTION(ours, name, version): the C function `ours` is `name` as it was in that version of x86-64's
// glibc. A younger architecture has it since its first.
#if defined(__x86_64__)
#define FRUGAL_GLIBC_FUNCTION(ours, name, version) __asm__(".symver " #ours "," #name "@GLIBC_" version)
#elif defined(__aarch64__)
#define FRUGAL_GLIBC_FUNCTION(ours, name, version) __asm__(".symver " #ours "," #name "@GLIBC_2.17")
#else
#error "say which is the first glibc for this architecture"
#endif

// The function `name` of this library, which calls that of glibc.
#define FRUGAL_OLD_FUNCTION(version, result, name, parameters, arguments) \
  extern "C" result frugal_old_##name parameters;                         \
  FRUGAL_GLIBC_FUNCTION(frugal_old_##name, name, version);                \
  extern "C" [[gnu::visibility("hidden")]] result name parameters;        \
  extern "C" result name parameters { return frugal_old_##name arguments; }

#endif

#endif  // GLIBC_SYMBOL_VERSIONS_H_
