// Units of the allocator: bytes, pages and device addresses as types that do not mix by accident.
//
// A page is a place of kPageSize in an address range; a handle is the physical memory that fills it.

#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <utility>

namespace frugal {

class Bytes {
 public:
  constexpr Bytes() = default;
  constexpr explicit Bytes(int64_t count) : count_(count) {}

  constexpr int64_t count() const { return count_; }

  constexpr Bytes& operator+=(Bytes other) {
    count_ += other.count_;
    return *this;
  }
  constexpr Bytes& operator-=(Bytes other) {
    count_ -= other.count_;
    return *this;
  }
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return a += b; }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return a -= b; }
  friend constexpr Bytes operator*(Bytes a, int64_t times) { return Bytes(a.count_ * times); }
  friend constexpr auto operator<=>(Bytes, Bytes) = default;

 private:
  int64_t count_ = 0;
};

// More than any device has.
inline constexpr Bytes kUnlimited = Bytes(std::numeric_limits<int64_t>::max());

inline constexpr Bytes KiB(int64_t n) { return Bytes(n << 10); }
inline constexpr Bytes MiB(int64_t n) { return Bytes(n << 20); }
inline constexpr Bytes GiB(int64_t n) { return Bytes(n << 30); }

// The size of one handle and of the place it fills: the smallest granularity of cuMemCreate.
inline constexpr Bytes kPageSize = MiB(2);
// Every block starts and ends on a multiple of this, as PyTorch's own do.
inline constexpr Bytes kGrain = Bytes(512);
// Blocks up to this size lie in ranges of their own by preference (see SizeClass), so that a small survivor does not
// pin a handle between two large blocks. PyTorch's statistics draw the line at the same size.
inline constexpr Bytes kSmallLimit = MiB(1);

class Pages {
 public:
  constexpr Pages() = default;
  constexpr explicit Pages(int64_t count) : count_(count) {}

  constexpr int64_t count() const { return count_; }
  constexpr Bytes bytes() const { return kPageSize * count_; }

  constexpr Pages& operator+=(Pages other) {
    count_ += other.count_;
    return *this;
  }
  constexpr Pages& operator-=(Pages other) {
    count_ -= other.count_;
    return *this;
  }
  friend constexpr Pages operator+(Pages a, Pages b) { return a += b; }
  friend constexpr Pages operator-(Pages a, Pages b) { return a -= b; }
  friend constexpr auto operator<=>(Pages, Pages) = default;

 private:
  int64_t count_ = 0;
};

// The fewest pages that hold `size`; 0 for a size of 0 or less.
constexpr Pages PagesCovering(Bytes size) {
  return size <= Bytes(0) ? Pages(0) : Pages((size.count() - 1) / kPageSize.count() + 1);
}

// An address in a device's memory.
class Address {
 public:
  constexpr Address() = default;
  constexpr explicit Address(uint64_t value) : value_(value) {}
  explicit Address(const void* pointer) : value_(reinterpret_cast<uint64_t>(pointer)) {}

  constexpr uint64_t value() const { return value_; }
  void* pointer() const { return reinterpret_cast<void*>(value_); }

  friend constexpr Address operator+(Address a, Bytes n) {
    return Address(a.value_ + static_cast<uint64_t>(n.count()));
  }
  friend constexpr Address operator-(Address a, Bytes n) { return a + Bytes(-n.count()); }
  friend constexpr Bytes operator-(Address a, Address b) { return Bytes(static_cast<int64_t>(a.value_ - b.value_)); }
  friend constexpr auto operator<=>(Address, Address) = default;
  template <typename H>
  friend H AbslHashValue(H h, Address a) {
    return H::combine(std::move(h), a.value_);
  }

 private:
  uint64_t value_ = 0;
};

constexpr Bytes RoundUp(Bytes size, Bytes multiple) {
  return Bytes((size.count() + multiple.count() - 1) / multiple.count() * multiple.count());
}
constexpr Bytes RoundDown(Bytes size, Bytes multiple) {
  return Bytes(size.count() / multiple.count() * multiple.count());
}

}  // namespace frugal
