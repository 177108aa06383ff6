#include "simulated_gpu/machine/setting_text.h"

#include <sys/stat.h>

#include <charconv>
#include <fstream>

namespace frugal::sim {

std::string Shown(std::string_view text) {
  constexpr size_t kMost = 100;
  std::string shown;
  for (const char one : text.substr(0, kMost)) shown += one >= ' ' && one <= '~' ? one : '?';
  return text.size() > kMost ? shown + "..." : shown;
}

std::optional<int64_t> ParseNumber(std::string_view text) {
  int64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

std::optional<Bytes> ParseBytes(std::string_view text) {
  Bytes unit(1);
  if (text.ends_with("KiB")) unit = KiB(1);
  if (text.ends_with("MiB")) unit = MiB(1);
  if (text.ends_with("GiB")) unit = GiB(1);
  if (unit != Bytes(1)) text.remove_suffix(3);
  const std::optional<int64_t> number = ParseNumber(text);
  if (!number || *number > GiB(1 << 20).count() / unit.count()) return std::nullopt;
  return unit * *number;
}

std::optional<std::string> WholeFile(const std::string& path) {
  constexpr off_t kMost = 1 << 20;
  struct stat status;
  // Before it is opened: to open a pipe is to wait for whoever writes into it.
  if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size > kMost) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace frugal::sim
