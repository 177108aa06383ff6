// What somebody threw, kept until it can be thrown to whom it concerns, perhaps in another thread.

#pragma once

#include <cstddef>
#include <exception>
#include <new>

namespace frugal {

namespace internal {
// The end of the std::exception_ptr at `pointer`, by the function that every libstdc++ has.
void EndExceptionPtr(void* pointer) noexcept __asm__("_ZNSt15__exception_ptr13exception_ptrD1Ev");
}  // namespace internal

// Instead of std::exception_ptr, whose copies and end are inline since GCC 11 and ask for CXXABI_1.3.13: a library that
// is built so would not load beside the oldest libstdc++ that torch itself loads beside. What is called here is older.
// Not thread-safe.
class Thrown {
 public:
  Thrown() { new (held_) std::exception_ptr; }
  ~Thrown() { internal::EndExceptionPtr(held_); }
  Thrown(const Thrown&) = delete;
  Thrown& operator=(const Thrown&) = delete;

  bool is_empty() const { return !*held(); }
  // REQUIRES: empty, in a handler of the exception.
  void Catch() { new (held_) std::exception_ptr(std::current_exception()); }
  // REQUIRES: not empty.
  [[noreturn]] void Throw() {
    // An argument of a class that is not trivial is passed as its address (Itanium C++ ABI, 3.1.2.3).
    using Rethrow = void (*)(void*);
    const auto rethrow = reinterpret_cast<Rethrow>(reinterpret_cast<void*>(&std::rethrow_exception));
    rethrow(held_);
    __builtin_unreachable();
  }

 private:
  const std::exception_ptr* held() const { return std::launder(reinterpret_cast<const std::exception_ptr*>(held_)); }
  alignas(std::exception_ptr) std::byte held_[sizeof(std::exception_ptr)];
};

}  // namespace frugal
