// Failures of device calls that nobody is told of, because what was wanted is done later or in another way.

#ifndef FRUGAL_ALLOCATOR_BLOCKS_DRIVER_FAILURES_H_
#define FRUGAL_ALLOCATOR_BLOCKS_DRIVER_FAILURES_H_

#include <cstdint>

#include "absl/status/status.h"

namespace frugal {

// Not thread-safe.
class DriverFailures {
 public:
  // `count` is raised by one for each failure. It must outlive this.
  explicit DriverFailures(int64_t& count) : count_(count) {}

  // OK changes nothing.
  void Absorb(const absl::Status& status) {
    if (!status.ok()) [[unlikely]]
      Note(status);
  }

  // The latest since Forget. OK: there was none.
  const absl::Status& latest() const { return latest_; }
  void Forget() { latest_ = absl::OkStatus(); }

 private:
  void Note(const absl::Status& failure) {
    ++count_;
    latest_ = failure;
  }

  int64_t& count_;
  absl::Status latest_;
};

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_BLOCKS_DRIVER_FAILURES_H_
