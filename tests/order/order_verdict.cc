#include "tests/order/order_verdict.h"

#include <algorithm>
#include <set>

#include "gtest/gtest.h"

namespace frugal {

bool OrderVerdict::HasViolations() const {
  const std::set<Moment>& unordered = log_.unordered();
  const std::set<Moment>& reported = log_.reported();
  EXPECT_TRUE(std::includes(unordered.begin(), unordered.end(), reported.begin(), reported.end()))
      << "the checker reported what has order:\n"
      << report();
  const Moment first_unordered = unordered.empty() ? log_.now() : *unordered.begin();
  const Moment first_reported = reported.empty() ? log_.now() : *reported.begin();
  EXPECT_EQ(first_reported, first_unordered) << "of " << log_.now() << " moments; the checker reported\n" << report();
  return !unordered.empty();
}

}  // namespace frugal
