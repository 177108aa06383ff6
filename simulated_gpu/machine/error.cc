#include "simulated_gpu/machine/error.h"

#include <ostream>
#include <utility>

namespace frugal::sim {
namespace {

constexpr std::pair<Error, ErrorText> kErrors[] = {
#define ERROR(name, number, ...) {Error::name, {__VA_ARGS__}},
#include "simulated_gpu/machine/errors.inc"
#undef ERROR
};

}  // namespace

const ErrorText& TextOf(Error error) {
  for (const auto& [known, text] : kErrors) {
    if (known == error) return text;
  }
  return TextOf(Error::kUnknown);
}

std::optional<Error> ErrorFromName(std::string_view spelling) {
  for (const auto& [known, text] : kErrors) {
    if (text.spelling == spelling) return known;
  }
  return std::nullopt;
}

std::ostream& operator<<(std::ostream& out, Error error) { return out << ErrorName(error); }

}  // namespace frugal::sim
