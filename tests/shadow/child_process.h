// Runs a function in a process of its own, so that one that crashes, hangs or ends the process is a result like others.

#ifndef FRUGAL_TESTS_SHADOW_CHILD_PROCESS_H_
#define FRUGAL_TESTS_SHADOW_CHILD_PROCESS_H_

#include <string>

#include "absl/functional/function_ref.h"

namespace frugal::shadow {

// "" if `body` returned ""; else what it returned, or what the process wrote on stderr before it ended otherwise, or
// that it took more than `most_seconds` of processor time. `body` runs in a copy of this process: what it changes is
// lost, but for memory that is shared. REQUIRES: this process has one thread.
std::string RunInChild(absl::FunctionRef<std::string()> body, int most_seconds);

// A T in memory that children share with this process. T is trivially copyable; it begins as zeros.
void* MapShared(size_t size);
template <typename T>
T& Shared() {
  return *static_cast<T*>(MapShared(sizeof(T)));
}

}  // namespace frugal::shadow

#endif  // FRUGAL_TESTS_SHADOW_CHILD_PROCESS_H_
