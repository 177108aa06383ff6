// The costs of a driver's calls as text, which is how those that were measured on a machine are kept: a line for each,
// "name microseconds", such as "map 2.5"; the rest of a line after '#' is a comment.
//
// Apart from the table, since Abseil's status brings C++'s streams into every library that only reads the figures.

#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "allocator/port/driver_cost_table.h"

namespace frugal {

// What the text leaves out keeps the table's figure. kInvalidArgument, with one line that says what to do, for a name
// that is not in the table or comes twice and for a figure that is not one.
absl::StatusOr<DriverCosts> ParseDriverCosts(absl::string_view text);

// Every cost with what it is for. ParseDriverCosts(ToText(costs)) == costs.
std::string ToText(const DriverCosts& costs);

}  // namespace frugal
