// FRUGAL_CHECK: an internal invariant. Ends the process with its place and text if it does not hold.
//
// Own code because Abseil's 2022 release has no CHECK.

#ifndef FRUGAL_ALLOCATOR_CHECK_H_
#define FRUGAL_ALLOCATOR_CHECK_H_

#include <cstdio>
#include <cstdlib>

#define FRUGAL_CHECK(condition)                                                                                        \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      std::fprintf(stderr, "frugal_alloc: internal error: %s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                                                    \
    }                                                                                                                  \
  } while (false)

#endif  // FRUGAL_ALLOCATOR_CHECK_H_
