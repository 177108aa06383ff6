// What a child by fork() needs that has inherited us. Every class with a lock has a BecomeForkedChild(), which the
// child calls as its only thread, before anything else runs in it.

#pragma once

#include <new>

#include "absl/synchronization/mutex.h"

namespace frugal {

// A thread of the parent may have held the mutex or waited for it, and is not here. (Holding all of them while the
// process forks would not do: to unlock a mutex wakes those who wait, and they are not here either.)
inline void Renew(absl::Mutex& mutex) { new (&mutex) absl::Mutex; }

}  // namespace frugal
