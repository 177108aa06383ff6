// FRUGAL_CHECK: an internal invariant, and what happens when one does not hold.
//
// Own code because Abseil's 2022 release has no CHECK.

#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <utility>

namespace frugal {

// How much is verified while the allocator works. The states of blocks always are.
enum class CheckLevel : uint8_t {
  kOff,
  kFast,  // that the neighbours of each block that is handed out or given back agree with it: constant time
  kFull,  // all invariants, after each call that changes something: time in proportion to what is held
};

#ifdef NDEBUG
inline constexpr CheckLevel kDefaultCheckLevel = CheckLevel::kFast;
#else
inline constexpr CheckLevel kDefaultCheckLevel = CheckLevel::kFull;
#endif

// An invariant does not hold: the accounting that it is about must not be used any more.
class BrokenInvariant : public std::exception {
 public:
  explicit BrokenInvariant(std::string text) : text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

// From now on a check that fails throws BrokenInvariant, which DeviceAllocator catches; until then it ends the process
// with one line, which is what a test wants. Any thread.
void ThrowFromFailedChecks();

[[noreturn]] void FailCheck(const std::string& what);
[[noreturn]] void FailCheck(const char* file, int line, const char* condition);

}  // namespace frugal

#define FRUGAL_CHECK(condition)                            \
  do {                                                     \
    if (!(condition)) [[unlikely]]                         \
      ::frugal::FailCheck(__FILE__, __LINE__, #condition); \
  } while (false)
