#include "allocator/port/format_bytes.h"

#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace frugal {

std::string FormatBytes(Bytes size) { return FormatBytes(static_cast<double>(size.count())); }

std::string FormatBytes(double size) {
  const auto whole = static_cast<int64_t>(std::nearbyint(size));
  if (whole == 1) return "1 byte";
  if (std::abs(whole) < 1024) return absl::StrCat(whole, " bytes");
  for (const char* const unit : {"KiB", "MiB"}) {
    size /= 1024;
    // What would be rounded to 1024.00 is 1.00 of the next unit.
    if (std::abs(size) < 1023.995) return absl::StrFormat("%.2f %s", size, unit);
  }
  return absl::StrFormat("%.2f GiB", size / 1024);
}

}  // namespace frugal
