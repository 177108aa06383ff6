// The locks of an allocator, as seen by those who let go of them while the driver or others work.

#pragma once

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "allocator/port/check.h"

namespace frugal {

// Two locks, the first taken before the second:
//   growth      is held by whoever changes what is mapped, from the first look at the accounting until the change is
//               entered there: so there is one at a time, and what it has set aside stays as it is.
//   accounting  guards what the allocator knows: its blocks, pages, streams and statistics. It is let go of while the
//               driver works, so that whoever finds a free block waits for nobody else's call.
// Copies are of the same locks. All functions REQUIRE that the calling thread holds accounting.
class AllocatorLocks {
 public:
  // All must outlive this. `health` is OK until an invariant does not hold; `accounting` guards it.
  AllocatorLocks(absl::Mutex& growth, absl::Mutex& accounting, const absl::Status& health)
      : growth_(growth), accounting_(accounting), health_(health) {}

  // The answer of `call`, which asks the driver. Blocks may be taken and given back meanwhile, so no block that was
  // found before is to be relied on but one that was claimed. Throws BrokenInvariant if an invariant broke meanwhile.
  template <typename Call>
  auto DuringDriverCall(Call&& call) {
    auto answer = WithoutAccounting(std::forward<Call>(call));
    CheckHealth();
    return answer;
  }

  // The answer of `call`, which may call the allocator, from this thread or another: nothing that was read before holds
  // afterwards. Throws as above. REQUIRES: both locks.
  template <typename Call>
  auto DuringForeignCall(Call&& call) {
    auto answer = WithoutAccounting([&] {
      const Release growth(growth_);
      return std::forward<Call>(call)();
    });
    CheckHealth();
    return answer;
  }

  // An error would have the request made once more.
  void CheckHealth() const {
    if (!health_.ok()) throw BrokenInvariant(absl::StrCat(health_.message()));
  }

 private:
  class Release {
   public:
    explicit Release(absl::Mutex& mutex) ABSL_NO_THREAD_SAFETY_ANALYSIS : mutex_(mutex) { mutex_.Unlock(); }
    ~Release() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex_.Lock(); }
    Release(const Release&) = delete;
    Release& operator=(const Release&) = delete;

   private:
    absl::Mutex& mutex_;
  };

  template <typename Call>
  auto WithoutAccounting(Call&& call) {
    const Release accounting(accounting_);
    return std::forward<Call>(call)();
  }

  absl::Mutex& growth_;
  absl::Mutex& accounting_;
  const absl::Status& health_;
};

// For the time of one miss: whoever holds the accounting lock gets the lock of growth, too. Others may hold the
// accounting lock between.
class GrowthTurn {
 public:
  GrowthTurn(absl::Mutex& growth, absl::Mutex& accounting) ABSL_NO_THREAD_SAFETY_ANALYSIS : growth_(growth) {
    accounting.Unlock();
    growth.Lock();
    accounting.Lock();
  }
  ~GrowthTurn() ABSL_NO_THREAD_SAFETY_ANALYSIS { growth_.Unlock(); }
  GrowthTurn(const GrowthTurn&) = delete;
  GrowthTurn& operator=(const GrowthTurn&) = delete;

 private:
  absl::Mutex& growth_;
};

}  // namespace frugal
