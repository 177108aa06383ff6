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
#include "bindings/publishing/json_text.h"

namespace frugal {
namespace {

// So that the document stays below Publisher::kMostBytes, even if each byte of a text is written as six.
constexpr size_t kMostName = 64;
constexpr size_t kMostCommand = 1200;
constexpr size_t kMostArguments = 64;
constexpr size_t kMostText = 300;
constexpr size_t kMostVerdicts = 8;
constexpr size_t kMostGpus = 32;

std::string Number(double value) { return std::isfinite(value) ? absl::StrFormat("%.3f", value) : "0"; }

const char* Truth(bool value) { return value ? "true" : "false"; }

std::string Command(const std::vector<std::string>& arguments) {
  std::string list;
  size_t left = kMostCommand;
  for (size_t i = 0; i < std::min(arguments.size(), kMostArguments) && left > 0; ++i) {
    absl::StrAppend(&list, i == 0 ? "" : ",", JsonText(arguments[i], left));
    left -= std::min(left, arguments[i].size());
  }
  return list;
}

std::string Gpu(const LiveGpu& gpu) {
  const auto known = [&gpu](int64_t size) { return gpu.is_size_known ? absl::StrCat(size) : "null"; };
  return absl::StrCat(
      "{\"gpu\":", gpu.gpu, ",\"name\":", JsonText(gpu.name, kMostName), ",\"uuid\":", JsonText(gpu.uuid, kMostName),
      ",\"total_bytes\":", known(gpu.total), ",\"free_bytes\":", known(gpu.free), ",\"limit_bytes\":", gpu.limit,
      ",\"in_use_bytes\":", gpu.in_use, ",\"held_bytes\":", gpu.held,
      ",\"waste_bytes\":", std::max(gpu.held - gpu.in_use, int64_t{0}), ",\"peak_in_use_bytes\":", gpu.peak,
      ",\"stitches\":", gpu.stitches, ",\"out_of_memory_errors\":", gpu.out_of_memory_errors,
      ",\"last_out_of_memory\":", gpu.last_out_of_memory.empty() ? "null" : JsonText(gpu.last_out_of_memory, kMostName),
      "}");
}

std::string Verdict(const PublishedVerdict& verdict) {
  return absl::StrCat("{\"kind\":", JsonText(verdict.kind, kMostName), ",\"gpu\":", verdict.gpu,
                      ",\"bytes_per_epoch\":", Number(verdict.bytes_per_epoch),
                      ",\"text\":", JsonText(verdict.text, kMostText), "}");
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
                      "],\"simulated\":", Truth(figures.is_simulated), ",\"node\":", JsonText(figures.node, kMostName),
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
