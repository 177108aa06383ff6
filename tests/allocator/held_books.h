// The locks of an allocator's books, both held: for tests of the parts that let go of them during the driver's calls.

#ifndef FRUGAL_TESTS_ALLOCATOR_HELD_BOOKS_H_
#define FRUGAL_TESTS_ALLOCATOR_HELD_BOOKS_H_

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "allocator/books_lock.h"

namespace frugal {

// For the thread that made it.
class HeldBooks {
 public:
  HeldBooks() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    growth_.Lock();
    books_.Lock();
  }
  ~HeldBooks() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    books_.Unlock();
    growth_.Unlock();
  }
  HeldBooks(const HeldBooks&) = delete;
  HeldBooks& operator=(const HeldBooks&) = delete;

  BooksLock lock() { return BooksLock(growth_, books_, health_); }

 private:
  absl::Mutex growth_;
  absl::Mutex books_;
  absl::Status health_;
};

}  // namespace frugal

#endif  // FRUGAL_TESTS_ALLOCATOR_HELD_BOOKS_H_
