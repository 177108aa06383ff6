// The most physical memory that several holders may have of a device together.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

#include "allocator/port/check.h"
#include "allocator/port/units.h"

namespace frugal {

// The policy takes from it, and so does whoever holds memory beside it. Bytes are taken before the device is asked for
// them, and given back once it has them again: so taken() <= most() means that the holders together never have more,
// not for a moment. Thread-safety: any thread, no lock, since each holder takes in the midst of locks of its own.
class SharedLimit {
 public:
  SharedLimit() = default;
  SharedLimit(const SharedLimit&) = delete;
  SharedLimit& operator=(const SharedLimit&) = delete;

  // kUnlimited: there is none. What was taken stays taken.
  void Set(Bytes most) { most_.store(most.count(), std::memory_order_relaxed); }
  Bytes most() const { return Bytes(most_.load(std::memory_order_relaxed)); }
  // What the holders have, and what they were promised.
  Bytes taken() const { return Bytes(taken_.load(std::memory_order_acquire)); }
  Bytes left() const { return std::max(most() - taken(), Bytes(0)); }

  // False: that is more than is left, and nothing was taken.
  bool Take(Bytes more) { return TakeUpTo(more, more) == more; }
  // As much of `wanted` as is left, or nothing if that is less than `least`. Returns what was taken.
  Bytes TakeUpTo(Bytes wanted, Bytes least = Bytes(0)) {
    int64_t taken = taken_.load(std::memory_order_relaxed);
    Bytes more;
    do {
      more = std::clamp(most() - Bytes(taken), Bytes(0), wanted);
      if (more < least) return Bytes(0);
    } while (!taken_.compare_exchange_weak(taken, taken + more.count(), std::memory_order_acq_rel));
    return more;
  }
  // What a holder has already, whatever the limit.
  void TakeAnyway(Bytes more) { taken_.fetch_add(more.count(), std::memory_order_acq_rel); }
  void GiveBack(Bytes less) { taken_.fetch_sub(less.count(), std::memory_order_acq_rel); }

 private:
  std::atomic<int64_t> most_{kUnlimited.count()};
  std::atomic<int64_t> taken_{0};
};

// Bytes of a limit that were promised to somebody who does not hold them yet. What was not redeemed goes back when it
// ends. Not thread-safe.
class Reservation {
 public:
  Reservation() = default;
  // `promised` was taken from `limit`, which must outlive this.
  Reservation(SharedLimit& limit, Bytes promised) : limit_(&limit), promised_(promised) {}
  Reservation(Reservation&& other) noexcept
      : limit_(other.limit_), promised_(std::exchange(other.promised_, Bytes(0))) {}
  Reservation& operator=(Reservation&& other) noexcept {
    Cancel();
    limit_ = other.limit_;
    promised_ = std::exchange(other.promised_, Bytes(0));
    return *this;
  }
  ~Reservation() { Cancel(); }

  Bytes promised() const { return promised_; }
  // `part` is held from now on, and its holder's to give back.
  void Redeem(Bytes part) {
    FRUGAL_CHECK(part <= promised_);
    promised_ -= part;
  }
  void Cancel() {
    if (promised_ > Bytes(0)) limit_->GiveBack(std::exchange(promised_, Bytes(0)));
  }

 private:
  SharedLimit* limit_ = nullptr;
  Bytes promised_;
};

}  // namespace frugal
