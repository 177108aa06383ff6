#include "bindings/publishing/live_document.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace frugal {
namespace {

// So that the document stays below Publisher::kMostBytes, even if each byte of a text is written as six.
constexpr size_t kMostName = 64;
constexpr size_t kMostCommand = 1200;
constexpr size_t kMostArguments = 64;
constexpr size_t kMostText = 300;
constexpr size_t kMostVerdicts = 8;
constexpr size_t kMostGpus = 32;

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

std::string Quoted(std::string_view text, size_t most) {
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

std::string Number(double value) { return std::isfinite(value) ? absl::StrFormat("%.3f", value) : "0"; }

const char* Truth(bool value) { return value ? "true" : "false"; }

std::string Command(const std::vector<std::string>& arguments) {
  std::string list;
  size_t left = kMostCommand;
  for (size_t i = 0; i < std::min(arguments.size(), kMostArguments) && left > 0; ++i) {
    absl::StrAppend(&list, i == 0 ? "" : ",", Quoted(arguments[i], left));
    left -= std::min(left, arguments[i].size());
  }
  return list;
}

std::string Gpu(const LiveGpu& gpu) {
  const auto known = [&gpu](int64_t size) { return gpu.is_size_known ? absl::StrCat(size) : "null"; };
  return absl::StrCat(
      "{\"gpu\":", gpu.gpu, ",\"name\":", Quoted(gpu.name, kMostName), ",\"uuid\":", Quoted(gpu.uuid, kMostName),
      ",\"total_bytes\":", known(gpu.total), ",\"free_bytes\":", known(gpu.free), ",\"limit_bytes\":", gpu.limit,
      ",\"in_use_bytes\":", gpu.in_use, ",\"held_bytes\":", gpu.held,
      ",\"waste_bytes\":", std::max(gpu.held - gpu.in_use, int64_t{0}), ",\"peak_in_use_bytes\":", gpu.peak,
      ",\"stitches\":", gpu.stitches, ",\"out_of_memory_errors\":", gpu.out_of_memory_errors,
      ",\"last_out_of_memory\":", gpu.last_out_of_memory.empty() ? "null" : Quoted(gpu.last_out_of_memory, kMostName),
      "}");
}

std::string Verdict(const PublishedVerdict& verdict) {
  return absl::StrCat("{\"kind\":", Quoted(verdict.kind, kMostName), ",\"gpu\":", verdict.gpu,
                      ",\"bytes_per_epoch\":", Number(verdict.bytes_per_epoch),
                      ",\"text\":", Quoted(verdict.text, kMostText), "}");
}

template <typename T>
std::string List(const std::vector<T>& all, size_t most, std::string (*write)(const T&)) {
  std::string list;
  for (size_t i = 0; i < std::min(all.size(), most); ++i) absl::StrAppend(&list, i == 0 ? "" : ",", write(all[i]));
  return list;
}

// The beginning of a file of /proc.
std::string Beginning(const char* path) {
  std::string text;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return text;
  std::array<char, 4096> buffer;
  const ssize_t size = read(file, buffer.data(), buffer.size());
  if (size > 0) text.assign(buffer.data(), static_cast<size_t>(size));
  close(file);
  return text;
}

}  // namespace

std::string WriteLiveDocument(const LiveFigures& figures) {
  return absl::StrCat("{\"schema\":\"frugal_alloc.live\",\"version\":1,\"pid\":", figures.pid,
                      ",\"age_seconds\":", Number(figures.age_seconds), ",\"command\":[", Command(figures.command),
                      "],\"simulated\":", Truth(figures.is_simulated), ",\"node\":", Quoted(figures.node, kMostName),
                      ",\"tracking\":", Truth(figures.is_tracking), ",\"epochs\":", figures.epochs, ",\"gpus\":[",
                      List(figures.gpus, kMostGpus, Gpu), "],\"verdicts\":[",
                      List(figures.verdicts, kMostVerdicts, Verdict), "]}");
}

std::vector<std::string> CommandLine() {
  std::string all = Beginning("/proc/self/cmdline");
  if (!all.empty() && all.back() == '\0') all.pop_back();
  if (all.empty()) return {};
  return absl::StrSplit(all, '\0');
}

double AgeSeconds() {
  // What follows the program's name, in which there may be anything; the first is the third of all.
  constexpr size_t kStart = 22 - 3;
  const std::string stat = Beginning("/proc/self/stat");
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= stat.size()) return 0;
  const std::vector<std::string> fields = absl::StrSplit(stat.substr(name_end + 2), ' ');
  int64_t ticks = 0;
  timespec now;
  if (fields.size() <= kStart || !absl::SimpleAtoi(fields[kStart], &ticks)) return 0;
  if (clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0;
  const double started = static_cast<double>(ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
  return std::max(0.0, static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 - started);
}

}  // namespace frugal
