// Whether memory was used in order on a device, by two judges that know nothing of each other: the order checker, and
// the log of all that happened.

#ifndef FRUGAL_TESTS_ORDER_ORDER_VERDICT_H_
#define FRUGAL_TESTS_ORDER_ORDER_VERDICT_H_

#include <cstdint>
#include <string>

#include "cuda/simulated/simulated_device.h"
#include "tests/order/work_log.h"

namespace frugal {

// So far: it changes with the device and its log, which it refers to.
class OrderVerdict {
 public:
  OrderVerdict(const sim::SimulatedDevice& device, const WorkLog& log) : device_(device), log_(log) {}

  // Whether something was used, or unmapped, without order, by the log. The checker must have reported the first such
  // moment, and nothing but such moments; else the test fails.
  bool HasViolations() const;

  // What the checker says.
  uint64_t accesses() const { return device_.order_accesses(); }
  uint64_t violations() const { return device_.order_violations(); }
  std::string report() const { return device_.order_report(); }

 private:
  const sim::SimulatedDevice& device_;
  const WorkLog& log_;
};

}  // namespace frugal

#endif  // FRUGAL_TESTS_ORDER_ORDER_VERDICT_H_
