#include "allocator/port/check.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace frugal {
namespace {

std::atomic<bool> throws{false};

}  // namespace

void ThrowFromFailedChecks() { throws.store(true); }

void FailCheck(const std::string& what) {
  if (throws.load()) throw BrokenInvariant(what);
  std::fprintf(stderr, "frugal_alloc: internal error: %s\n", what.c_str());
  std::abort();
}

void FailCheck(const char* file, int line, const char* condition) {
  FailCheck(absl::StrCat(file, ":", line, ": ", condition, " does not hold"));
}

}  // namespace frugal
