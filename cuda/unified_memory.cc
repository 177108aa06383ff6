#include "cuda/unified_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace frugal {
namespace {

constexpr char kMeminfo[] = "/proc/meminfo";
constexpr char kGroups[] = "/sys/fs/cgroup";

std::optional<Bytes> ParseBytes(absl::string_view text) {
  int64_t number = 0;
  if (!absl::SimpleAtoi(text, &number) || number < 0) return std::nullopt;
  return Bytes(number);
}

// What a line says that begins with `key`, in units of `unit`.
std::optional<Bytes> Figure(absl::string_view text, absl::string_view key, Bytes unit) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::ConsumePrefix(&line, key)) continue;
    absl::ConsumeSuffix(&line, "kB");
    const std::optional<Bytes> number = ParseBytes(line);
    if (!number || number->count() > kUnlimited.count() / unit.count()) return std::nullopt;
    return *number * unit.count();
  }
  return std::nullopt;
}

}  // namespace

Bytes UnifiedMemory::State::Room() const {
  Bytes room = available - reserve;
  if (group_counts_gpu && group_left < kUnlimited) room = std::min(room, group_left - group_reserve);
  return std::max(room, Bytes(0));
}

UnifiedMemory::UnifiedMemory(FileReader read) : read_(std::move(read)) {
  std::string folder = kGroups;
  for (const absl::string_view line : absl::StrSplit(read_("/proc/self/cgroup").value_or(""), '\n')) {
    absl::string_view path = line;
    // Version 2's line; those of version 1 name what they control.
    if (!absl::ConsumePrefix(&path, "0::/")) continue;
    for (const absl::string_view part : absl::StrSplit(path, '/', absl::SkipEmpty())) {
      groups_.push_back(folder);
      absl::StrAppend(&folder, "/", part);
    }
  }
  groups_.push_back(folder);
}

absl::StatusOr<UnifiedMemory::State> UnifiedMemory::Look() const {
  const std::optional<std::string> meminfo = read_(kMeminfo);
  const std::string text = meminfo.value_or("");
  const std::optional<Bytes> total = Figure(text, "MemTotal:", KiB(1));
  const std::optional<Bytes> available = Figure(text, "MemAvailable:", KiB(1));
  if (!total || !available) {
    return absl::UnavailableError(absl::StrCat(kMeminfo, " does not say how much memory is available"));
  }
  State state;
  state.total = *total;
  state.available = std::min(*available, *total);
  state.free = Figure(text, "MemFree:", KiB(1)).value_or(state.available);
  state.own = Figure(read_("/proc/self/status").value_or(""), "RssAnon:", KiB(1)).value_or(Bytes(0));
  state.reserve = ReserveOf(state.total);
  state.group_counts_gpu = group_counts_gpu_.load();
  LookAtGroups(state);
  return state;
}

void UnifiedMemory::LookAtGroups(State& state) const {
  for (const std::string& folder : groups_) {
    const std::string most = read_(absl::StrCat(folder, "/memory.max")).value_or("");
    const std::optional<Bytes> limit = ParseBytes(most);
    if (!limit || *limit >= state.total) continue;  // "max", no such file, or no limit on this machine
    const std::optional<Bytes> current = ParseBytes(read_(absl::StrCat(folder, "/memory.current")).value_or(""));
    if (!current) continue;
    const std::string stat = read_(absl::StrCat(folder, "/memory.stat")).value_or("");
    const Bytes files = Figure(stat, "inactive_file ", Bytes(1)).value_or(Bytes(0));
    const Bytes left = std::max(*limit - *current + files, Bytes(0));
    if (left >= state.group_left) continue;
    state.group_limit = *limit;
    state.group_current = *current;
    state.group_left = left;
    state.group_reserve = ReserveOf(*limit);
  }
}

Bytes UnifiedMemory::ReserveOf(Bytes total) const {
  const int64_t reserve = reserve_.load();
  return reserve == kUsual ? Bytes(total.count() / kReservedPart) : Bytes(reserve);
}

std::optional<std::string> UnifiedMemory::ReadFile(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  std::string text;
  std::array<char, 4096> part;
  ssize_t size = 0;
  while ((size = read(file, part.data(), part.size())) != 0) {
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) break;
    text.append(part.data(), static_cast<size_t>(size));
  }
  close(file);
  if (size < 0) return std::nullopt;
  return text;
}

}  // namespace frugal
