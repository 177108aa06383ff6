// The lock of an allocator's books, as seen by those who let go of it for a while.

#ifndef FRUGAL_ALLOCATOR_BOOKS_LOCK_H_
#define FRUGAL_ALLOCATOR_BOOKS_LOCK_H_

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "allocator/check.h"

namespace frugal {

// All must be called with the lock held.
class BooksLock {
 public:
  // Both must outlive this. `health` is OK until an invariant of the books does not hold.
  BooksLock(absl::Mutex& books, const absl::Status& health) : books_(books), health_(health) {}

  // The answer of `call`, which may call the allocator, from this thread or another. Nothing that was read in the books
  // before holds afterwards. Throws BrokenInvariant if the books broke meanwhile.
  template <typename Call>
  auto Released(Call&& call) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    auto answer = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      const Release release(books_);
      return std::forward<Call>(call)();
    }();
    // An error would have the request made once more.
    if (!health_.ok()) throw BrokenInvariant(absl::StrCat(health_.message()));
    return answer;
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

  absl::Mutex& books_;
  const absl::Status& health_;
};

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_BOOKS_LOCK_H_
