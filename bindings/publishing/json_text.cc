#include "bindings/publishing/json_text.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace frugal {
namespace {

constexpr char kReplacement[] = "\\ufffd";

// How many bytes the UTF-8 character at the beginning has; 0: it is none.
size_t Utf8Length(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const size_t length = first < 0x80   ? 1
                        : first < 0xc2 ? 0
                        : first < 0xe0 ? 2
                        : first < 0xf0 ? 3
                        : first < 0xf5 ? 4
                                       : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Written longer than needed, halves of a pair of UTF-16, or beyond Unicode.
  if (first == 0xe0 && byte(1) < 0xa0) return 0;
  if (first == 0xed && byte(1) >= 0xa0) return 0;
  if (first == 0xf0 && byte(1) < 0x90) return 0;
  if (first == 0xf4 && byte(1) >= 0x90) return 0;
  return length;
}

}  // namespace

std::string JsonText(std::string_view text, size_t most) {
  text = text.substr(0, most);
  std::string quoted = "\"";
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    const char first = text.front();
    if (length == 0) {
      quoted += kReplacement;
    } else if (length == 1 && (static_cast<unsigned char>(first) < 0x20 || first == 0x7f)) {
      absl::StrAppendFormat(&quoted, "\\u%04x", first);
    } else {
      if (first == '"' || first == '\\') quoted += '\\';
      quoted.append(text.data(), length);
    }
    text.remove_prefix(std::max(length, size_t{1}));
  }
  return quoted + '"';
}

JsonObject& JsonObject::Integer(std::string_view name, int64_t value) { return Value(name, absl::StrCat(value)); }

JsonObject& JsonObject::Real(std::string_view name, double value) {
  return Value(name, std::isfinite(value) ? absl::StrFormat("%.17g", value) : "0");
}

JsonObject& JsonObject::Value(std::string_view name, std::string_view json) {
  if (text_.size() > 1) text_ += ',';
  text_ += JsonText(name);
  text_ += ':';
  text_ += json;
  return *this;
}

}  // namespace frugal
