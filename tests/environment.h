// How much the random tests do, and what they draw, is for the environment to say (docs/reliability.md).

#pragma once

#include <cstdint>
#include <cstdlib>

namespace frugal {

// By how much less a test does where a sanitizer makes it slow.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr int64_t kSlowdown = 20;
#else
inline constexpr int64_t kSlowdown = 1;
#endif

// A number, or `usual` where the variable is not set.
inline int64_t FromEnvironment(const char* name, int64_t usual) {
  const char* value = std::getenv(name);
  return value == nullptr ? usual : std::atoll(value);
}

// From which all that a test draws follows: the same seed is the same run.
inline uint64_t TestSeed() { return static_cast<uint64_t>(FromEnvironment("FRUGAL_TEST_SEED", 1)); }

}  // namespace frugal
