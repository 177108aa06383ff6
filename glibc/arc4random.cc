// std::random_device, in the C++ library that is linked into the simulated libraries, asks for this function, which
// glibc has since 2.36. Nothing calls it, and the linker keeps it all the same.

#include <sys/random.h>

#include <cstdint>

extern "C" [[gnu::visibility("hidden")]] uint32_t arc4random() {
  uint32_t value = 0;
  // Four bytes are never delivered in part.
  while (getrandom(&value, sizeof(value), 0) < 0) {
  }
  return value;
}
