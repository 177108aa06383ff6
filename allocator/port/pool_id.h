// The private pools of a program.

#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <utility>

namespace frugal {

// Two numbers, as PyTorch has them, of which none is used twice in a process.
struct PoolId {
  uint64_t first = 0;
  uint64_t second = 0;

  // What is in no private pool.
  constexpr bool is_default() const { return *this == PoolId(); }
  friend constexpr auto operator<=>(PoolId, PoolId) = default;
  template <typename H>
  friend H AbslHashValue(H h, PoolId pool) {
    return H::combine(std::move(h), pool.first, pool.second);
  }
};

// One pool, of which the default one counts as one; nullopt: all of them.
using OnlyPool = std::optional<PoolId>;
inline bool Includes(const OnlyPool& only, PoolId pool) { return !only.has_value() || *only == pool; }

}  // namespace frugal
