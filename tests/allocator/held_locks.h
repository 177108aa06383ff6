// The locks of an allocator's books, both held: for tests of the parts that let go of them during the driver's calls.

#pragma once

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "allocator/blocks/allocator_locks.h"

namespace frugal {

// For the thread that made it.
class HeldLocks {
 public:
  HeldLocks() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    growth_.Lock();
    books_.Lock();
  }
  ~HeldLocks() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    books_.Unlock();
    growth_.Unlock();
  }
  HeldLocks(const HeldLocks&) = delete;
  HeldLocks& operator=(const HeldLocks&) = delete;

  AllocatorLocks lock() { return AllocatorLocks(growth_, books_, health_); }

 private:
  absl::Mutex growth_;
  absl::Mutex books_;
  absl::Status health_;
};

}  // namespace frugal
