#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"

namespace frugal::shadow {

// The first thing that was not as it must be.
class Verdict {
 public:
  bool failed() const { return !text_.empty(); }
  const std::string& text() const { return text_; }
  void Fail(std::string text) {
    if (!failed()) text_ = std::move(text);
  }
  void Expect(const char* what, int64_t is, int64_t should) {
    if (is != should) Fail(absl::StrFormat("%s: %d instead of %d", what, is, should));
  }

 private:
  std::string text_;
};

}  // namespace frugal::shadow
