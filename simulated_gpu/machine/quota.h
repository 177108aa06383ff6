// Something of which there is only so much.

#pragma once

#include <atomic>
#include <cstdint>

namespace frugal::sim {

// Thread-safe.
class Quota {
 public:
  explicit Quota(int64_t most) : most_(most) {}
  virtual ~Quota() = default;
  Quota(const Quota&) = delete;
  Quota& operator=(const Quota&) = delete;

  // False if there are not as many left; nothing has changed then.
  virtual bool Take(int64_t amount) {
    int64_t taken = taken_.load();
    do {
      if (amount > most_ - taken) return false;
    } while (!taken_.compare_exchange_weak(taken, taken + amount));
    return true;
  }
  virtual void GiveBack(int64_t amount) { taken_ -= amount; }

  virtual int64_t taken() const { return taken_.load(); }

 private:
  const int64_t most_;
  std::atomic<int64_t> taken_{0};
};

}  // namespace frugal::sim
