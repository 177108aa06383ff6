// The C++ library that is linked into each simulated library holds std::random_device, which asks glibc for this
// function since 2.36. Nothing calls it, and the linker keeps it all the same: with a definition of our own the
// libraries load on systems with glibc 2.35, such as Ubuntu 22.04.

#include <sys/random.h>

#include <cstdint>

extern "C" [[gnu::visibility("hidden")]] uint32_t arc4random() noexcept {
  uint32_t value = 0;
  // Four bytes are never delivered in part.
  while (getrandom(&value, sizeof(value), 0) < 0) {
  }
  return value;
}
