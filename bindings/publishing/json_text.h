// What the library tells others, as JSON.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace frugal {

// The text's first `most` bytes in quotes; what is no UTF-8 is replaced.
std::string JsonText(std::string_view text, size_t most = std::string_view::npos);

// An object, made member by member.
class JsonObject {
 public:
  JsonObject& Integer(std::string_view name, int64_t value);
  // 0 where it is no finite number.
  JsonObject& Real(std::string_view name, double value);
  JsonObject& Text(std::string_view name, std::string_view value, size_t most = std::string_view::npos) {
    return Value(name, JsonText(value, most));
  }
  JsonObject& Truth(std::string_view name, bool value) { return Value(name, value ? "true" : "false"); }
  // `json`: a value as JSON.
  JsonObject& Value(std::string_view name, std::string_view json);

  std::string Done() const { return text_ + "}"; }

 private:
  std::string text_ = "{";
};

// The elements of a list, separated by commas; `write` makes JSON of each.
template <typename All, typename Write>
std::string JsonElements(const All& all, Write write) {
  std::string elements;
  for (const auto& element : all) {
    if (!elements.empty()) elements += ',';
    elements += write(element);
  }
  return elements;
}

template <typename All, typename Write>
std::string JsonList(const All& all, Write write) {
  return "[" + JsonElements(all, write) + "]";
}

}  // namespace frugal
