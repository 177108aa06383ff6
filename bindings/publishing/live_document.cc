#include "bindings/publishing/live_document.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
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
constexpr size_t kMostPools = 8;

std::string Command(const std::vector<std::string>& arguments) {
  std::string list;
  size_t left = kMostCommand;
  for (size_t i = 0; i < std::min(arguments.size(), kMostArguments) && left > 0; ++i) {
    absl::StrAppend(&list, i == 0 ? "" : ",", JsonText(arguments[i], left));
    left -= std::min(left, arguments[i].size());
  }
  return absl::StrCat("[", list, "]");
}

std::string Gpu(const LiveGpu& gpu) {
  const auto known = [&gpu](int64_t size) { return gpu.is_size_known ? absl::StrCat(size) : "null"; };
  const std::string& error = gpu.last_out_of_memory;
  return JsonObject()
      .Integer("gpu", gpu.gpu)
      .Text("name", gpu.name, kMostName)
      .Text("uuid", gpu.uuid, kMostName)
      .Value("total_bytes", known(gpu.total))
      .Value("free_bytes", known(gpu.free))
      .Integer("limit_bytes", gpu.limit)
      .Integer("allocated_bytes", gpu.in_use)
      .Integer("reserved_bytes", gpu.held)
      .Integer("asleep_bytes", gpu.asleep)
      .Integer("waste_bytes", std::max(gpu.held - (gpu.in_use - gpu.asleep), int64_t{0}))
      .Integer("peak_allocated_bytes", gpu.peak)
      .Integer("stitches", gpu.stitches)
      .Integer("out_of_memory_errors", gpu.out_of_memory_errors)
      .Value("last_out_of_memory", error.empty() ? "null" : JsonText(error, kMostName))
      .Done();
}

std::string Pool(const LivePool& pool) {
  return JsonObject()
      .Integer("gpu", pool.gpu)
      .Text("line", pool.line, kMostName)
      .Truth("captured", pool.captured)
      .Truth("released", pool.released)
      .Integer("reserved_bytes", pool.reserved)
      .Integer("allocated_bytes", pool.allocated)
      .Integer("idle_bytes", pool.idle)
      .Done();
}

std::string Verdict(const PublishedVerdict& verdict) {
  return JsonObject()
      .Text("kind", verdict.kind, kMostName)
      .Integer("gpu", verdict.gpu)
      .Real("bytes_per_epoch", verdict.bytes_per_epoch)
      .Text("text", verdict.text, kMostText)
      .Done();
}

template <typename T>
absl::Span<const T> First(const std::vector<T>& all, size_t most) {
  return absl::MakeConstSpan(all).first(std::min(all.size(), most));
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
  return JsonObject()
      .Text("schema", "frugal_alloc.live")
      .Integer("version", 1)
      .Integer("pid", figures.pid)
      .Real("age_seconds", figures.age_seconds)
      .Value("command", Command(figures.command))
      .Truth("simulated", figures.is_simulated)
      .Text("node", figures.node, kMostName)
      .Truth("tracking", figures.is_tracking)
      .Integer("epochs", figures.epochs)
      .Value("gpus", JsonList(First(figures.gpus, kMostGpus), Gpu))
      .Value("pools", JsonList(First(figures.pools, kMostPools), Pool))
      .Value("verdicts", JsonList(First(figures.verdicts, kMostVerdicts), Verdict))
      .Done();
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

bool IsSimulated() { return dlsym(RTLD_DEFAULT, "frugal_sim_calls") != nullptr; }

std::string SimulatedNode() {
  const char* const node = std::getenv("FRUGAL_SIM_NODE");
  return node == nullptr ? "" : node;
}

}  // namespace frugal
