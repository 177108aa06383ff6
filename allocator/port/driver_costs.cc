#include "allocator/port/driver_costs.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace frugal {
namespace {

// A second. No call of a driver that works takes as long; a figure in other units does.
constexpr double kMostMicroseconds = 1'000'000;

struct NamedCost {
  absl::string_view name;
  int64_t DriverCosts::*cost;
  absl::string_view what;
};

constexpr NamedCost kNamedCosts[] = {
#define FRUGAL_NAME_COST(name, figure, what) {#name, &DriverCosts::name, what},
    FRUGAL_DRIVER_COSTS(FRUGAL_NAME_COST)
#undef FRUGAL_NAME_COST
};

// What somebody wrote, for a message of one line: printable, and not without end.
std::string Shown(absl::string_view text) {
  constexpr size_t kMost = 100;
  std::string shown(text.substr(0, kMost));
  for (char& character : shown) {
    if (!absl::ascii_isprint(static_cast<unsigned char>(character))) character = '?';
  }
  return text.size() > kMost ? shown + "..." : shown;
}

std::string AllNames() {
  std::string names;
  for (const NamedCost& named : kNamedCosts) absl::StrAppend(&names, names.empty() ? "" : ", ", named.name);
  return names;
}

std::optional<int64_t> ParseMicroseconds(absl::string_view text) {
  // A plain decimal number: strtod, which absl is, also takes "inf", "nan" and hexadecimal ones.
  if (text.find_first_not_of("0123456789.") != absl::string_view::npos) return std::nullopt;
  double microseconds = 0;
  if (!absl::SimpleAtod(text, &microseconds) || !(microseconds <= kMostMicroseconds)) return std::nullopt;
  return std::llround(microseconds * 1e3);
}

}  // namespace

absl::StatusOr<DriverCosts> ParseDriverCosts(absl::string_view text) {
  DriverCosts costs;
  std::vector<absl::string_view> seen;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = line.substr(0, line.find('#'));
    const std::vector<absl::string_view> words = absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty()) continue;
    const auto refuse = [&](absl::string_view advice) {
      return absl::InvalidArgumentError(absl::StrCat("line ", number, ", '", Shown(absl::StripAsciiWhitespace(line)),
                                                     "', is not a driver cost: ", advice));
    };
    if (words.size() != 2) return refuse("write a name and microseconds, such as 'map 2.5'");
    const auto* named = std::find_if(std::begin(kNamedCosts), std::end(kNamedCosts),
                                     [&](const NamedCost& cost) { return cost.name == words[0]; });
    if (named == std::end(kNamedCosts)) return refuse(absl::StrCat("the names are ", AllNames()));
    if (std::find(seen.begin(), seen.end(), named->name) != seen.end()) return refuse("its name came before; keep one");
    const std::optional<int64_t> cost = ParseMicroseconds(words[1]);
    if (!cost) return refuse("write microseconds from 0 to 1000000, such as 2.5");
    costs.*named->cost = *cost;
    seen.push_back(named->name);
  }
  return costs;
}

std::string ToText(const DriverCosts& costs) {
  std::string text = "# What calls of the driver take, in microseconds.\n";
  for (const NamedCost& named : kNamedCosts) {
    const int64_t cost = costs.*named.cost;
    std::string figure = absl::StrCat(cost / 1000);
    if (cost % 1000 != 0) absl::StrAppend(&figure, absl::StrFormat(".%03d", cost % 1000));
    absl::StrAppend(&text, named.name, " ", figure, "  # ", named.what, "\n");
  }
  return text;
}

}  // namespace frugal
