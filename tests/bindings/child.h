// A child by fork that says whether what a test expects of it came true.

#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/functional/function_ref.h"
#include "gtest/gtest.h"

namespace frugal {

// For a child that hangs: it then ends by a signal.
inline constexpr unsigned kMostSeconds = 60;

// Runs `body` in a child by fork, which ends by `end`: std::exit or _exit. Whether all that it expects came true.
inline bool HoldsInChild(absl::FunctionRef<void()> body, void (*end)(int) = &_exit) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(kMostSeconds);
    body();
    end(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace frugal
