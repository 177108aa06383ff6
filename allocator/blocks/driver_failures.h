// Failures of device calls that nobody is told of, because what was wanted is done later or in another way.

#pragma once

#include <cstdint>
#include <utility>

#include "absl/status/status.h"

namespace frugal {

// Not thread-safe.
class DriverFailures {
 public:
  // What fails while the calling thread serves a request, from the making of this to its end: what fails for others
  // meanwhile is none of its. For the thread that made it.
  class OfRequest {
   public:
    // `failures` must outlive this.
    explicit OfRequest(const DriverFailures& failures) : failures_(failures), outer_(std::exchange(innermost_, this)) {}
    ~OfRequest() { innermost_ = outer_; }
    OfRequest(const OfRequest&) = delete;
    OfRequest& operator=(const OfRequest&) = delete;

    // OK: there was none.
    const absl::Status& latest() const { return latest_; }

   private:
    friend class DriverFailures;

    const DriverFailures& failures_;
    OfRequest* const outer_;
    absl::Status latest_;
  };

  // `count` is raised by one for each failure. It must outlive this.
  explicit DriverFailures(int64_t& count) : count_(count) {}

  // OK changes nothing.
  void Absorb(const absl::Status& status) {
    if (!status.ok()) [[unlikely]]
      Note(status);
  }

 private:
  void Note(const absl::Status& failure) {
    ++count_;
    if (innermost_ != nullptr && &innermost_->failures_ == this) innermost_->latest_ = failure;
  }

  // Of the calling thread. null: it serves no request.
  static inline thread_local OfRequest* innermost_ = nullptr;

  int64_t& count_;
};

}  // namespace frugal
