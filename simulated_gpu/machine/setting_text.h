// Numbers and sizes as a user writes them into a setting, and small files that a setting names.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "allocator/port/units.h"

namespace frugal::sim {

// What somebody set, for a message of one line: printable, and not without end.
std::string Shown(std::string_view text);

// 0 or more.
std::optional<int64_t> ParseNumber(std::string_view text);

// Bytes, or with "KiB", "MiB" or "GiB".
std::optional<Bytes> ParseBytes(std::string_view text);

// nullopt if `path` is no plain file of at most 1 MiB that can be read.
std::optional<std::string> WholeFile(const std::string& path);

}  // namespace frugal::sim
