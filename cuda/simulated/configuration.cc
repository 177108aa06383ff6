#include "cuda/simulated/configuration.h"

#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "allocator/port/driver_costs.h"
#include "cuda/simulated/setting_text.h"
#include "cuda/simulated/whole_file.h"

namespace frugal::sim {
namespace {

// A parser of two words, of which `on` means true.
auto EitherOf(std::string_view on, std::string_view off) {
  return [on, off](std::string_view text) -> std::optional<bool> {
    if (text == on) return true;
    if (text == off) return false;
    return std::nullopt;
  };
}

std::optional<bool> ParseSwitch(std::string_view text) { return EitherOf("1", "0")(text); }

std::optional<Backing> ParseBacking(std::string_view text) {
  if (text == "memory") return Backing::kMemory;
  if (text == "none") return Backing::kNone;
  return std::nullopt;
}

std::optional<int> ParseGpus(std::string_view text) {
  const std::optional<int64_t> number = ParseNumber(text);
  if (!number || *number < 1 || *number > Configuration::kMostGpus) return std::nullopt;
  return static_cast<int>(*number);
}

std::optional<Nanoseconds> ParseNanoseconds(std::string_view text) {
  const std::optional<int64_t> number = ParseNumber(text);
  if (!number) return std::nullopt;
  return Nanoseconds(*number);
}

std::optional<int64_t> ParseCount(std::string_view text) {
  const std::optional<int64_t> number = ParseNumber(text);
  return number && *number > 0 ? number : std::nullopt;
}

std::optional<std::string> ParsePath(std::string_view text) { return std::string(text); }

// "" if `path` names a file of driver costs, which are then in `costs`.
std::string ReadCosts(const std::string& path, DriverCosts* costs) {
  const std::optional<std::string> text = WholeFile(path);
  if (!text) return "it is not a file that can be read";
  const absl::StatusOr<DriverCosts> parsed = ParseDriverCosts(*text);
  if (const absl::string_view problem = parsed.status().message(); !parsed.ok())
    return {problem.begin(), problem.end()};
  *costs = *parsed;
  return "";
}

// Reads variables one by one until one is not understood.
class Reader {
 public:
  explicit Reader(std::string* problem) : problem_(problem) {}

  // An empty variable counts as one that is not set.
  template <typename T, typename Parse>
  void Read(const char* name, Parse parse, const char* expected, T* into) {
    const char* text = std::getenv(name);
    if (!problem_->empty() || text == nullptr || *text == '\0') return;
    const auto value = parse(text);
    if (value) {
      *into = *value;
    } else {
      *problem_ = std::string(name) + "='" + Shown(text) + "' is not understood; set it to " + expected;
    }
  }

 private:
  std::string* const problem_;
};

// The GPUs, and what they do with a program's calls.
void ReadGpus(Reader& reader, Configuration* configuration) {
  reader.Read("FRUGAL_SIM_MEMORY", ParseBytes, "bytes, such as 25769803776 or 24GiB", &configuration->memory);
  reader.Read("FRUGAL_SIM_CONTEXT", ParseBytes, "bytes, such as 536870912 or 512MiB", &configuration->context);
  reader.Read("FRUGAL_SIM_GPUS", ParseGpus, "a number from 1 to 16", &configuration->gpus);
  reader.Read("FRUGAL_SIM_BEYOND", ParseSwitch, "0 or 1", &configuration->beyond);
  reader.Read("FRUGAL_SIM_KERNEL_NS", ParseNanoseconds, "nanoseconds, such as 10000", &configuration->kernel);
  reader.Read("FRUGAL_SIM_BACKING", ParseBacking, "memory or none", &configuration->backing);
  reader.Read("FRUGAL_SIM_KEEP", ParseBytes, "bytes, such as 1048576 or 1MiB", &configuration->keep);
  reader.Read("FRUGAL_SIM_TIME", EitherOf("modelled", "wall"), "wall or modelled", &configuration->modelled_time);
  reader.Read("FRUGAL_SIM_VMM", ParseSwitch, "0 or 1", &configuration->virtual_memory);
  reader.Read("FRUGAL_SIM_VERBOSE", ParseSwitch, "0 or 1", &configuration->verbose);
  reader.Read("FRUGAL_SIM_UNSUPPORTED", EitherOf("end", "refuse"), "end or refuse", &configuration->unsupported_ends);
  reader.Read("FRUGAL_SIM_ORDER", ParseSwitch, "0 or 1", &configuration->order);
  reader.Read("FRUGAL_SIM_STRICT", ParseSwitch, "0 or 1", &configuration->strict);
  reader.Read("FRUGAL_SIM_LATE", ParseSwitch, "0 or 1", &configuration->late);
  configuration->kernel_given = std::getenv("FRUGAL_SIM_KERNEL_NS") != nullptr;
  // The program computes values at once, beside what we do.
  const char* values = std::getenv("FRUGAL_SIM_VALUES");
  configuration->late_data = values == nullptr || std::string_view(values) != "cpu";
  reader.Read("FRUGAL_SIM_FAULTS", FaultPlan::Parse, "a plan, such as create@3=out_of_memory,map@1+=invalid_value",
              &configuration->faults);
}

// The driver, its limits, and the host around them.
void ReadSurroundings(Reader& reader, Configuration* configuration) {
  reader.Read("FRUGAL_SIM_DRIVER_TIME", ParseSwitch, "0 or 1", &configuration->driver_time);
  reader.Read("FRUGAL_SIM_NODE", ParsePath, "a file, such as /dev/shm/node", &configuration->node);
  reader.Read("FRUGAL_SIM_MAPPINGS", ParseCount, "a number above 0, such as 524288", &configuration->mapped_handles);
  reader.Read("FRUGAL_SIM_ADDRESSES", ParseBytes, "bytes, such as 128GiB", &configuration->addresses);
  reader.Read("FRUGAL_SIM_MAP_COUNT", ParseCount, "a number above 0, such as 65530", &configuration->host_mappings);
  reader.Read("FRUGAL_SIM_FULL", ParseSwitch, "0 or 1", &configuration->driver_memory.on);
  reader.Read("FRUGAL_SIM_MODULE", ParseBytes, "bytes, such as 4MiB", &configuration->driver_memory.module);
  reader.Read("FRUGAL_SIM_UNIFIED", ParseSwitch, "0 or 1", &configuration->host.on);
  reader.Read("FRUGAL_SIM_HOST_OTHERS", ParseBytes, "bytes, such as 4GiB", &configuration->host.others);
  reader.Read("FRUGAL_SIM_HOST_CACHE", ParseBytes, "bytes, such as 4GiB", &configuration->host.cache);
  reader.Read("FRUGAL_SIM_GROUP_LIMIT", ParseBytes, "bytes, such as 8GiB", &configuration->host.group_limit);
  reader.Read("FRUGAL_SIM_GROUP_COUNTS_GPU", ParseSwitch, "0 or 1", &configuration->host.group_counts_gpu);
}

// What has a problem of its own to tell: "" or why `text`, which a variable says, is refused.
template <typename Refuse>
void ReadLong(const char* name, std::string* problem, Refuse refuse) {
  const char* text = std::getenv(name);
  if (!problem->empty() || text == nullptr || *text == '\0') return;
  const std::string refused = refuse(text);
  if (!refused.empty()) *problem = std::string(name) + "='" + Shown(text) + "': " + refused;
}

}  // namespace

bool Configuration::FromEnvironment(Configuration* configuration, std::string* problem) {
  *configuration = Configuration();
  problem->clear();
  Reader reader(problem);
  ReadGpus(reader, configuration);
  ReadSurroundings(reader, configuration);
  ReadLong("FRUGAL_SIM_GPU", problem, [&](const char* text) {
    std::string refused;
    GpuModel::Parse(text, &configuration->model, &refused);
    return refused;
  });
  configuration->models_workspaces = configuration->model.is_given;
  reader.Read("FRUGAL_SIM_WORKSPACES", EitherOf("modelled", "plain"), "modelled or plain",
              &configuration->models_workspaces);
  if (problem->empty() && configuration->host.on && configuration->gpus > 1) {
    *problem = "FRUGAL_SIM_UNIFIED='1' goes with one GPU, whose memory is the host's; set FRUGAL_SIM_GPUS to 1";
  }
  ReadLong("FRUGAL_SIM_COSTS", problem, [&](const char* text) { return ReadCosts(text, &configuration->costs); });
  if (problem->empty() && configuration->memory.count() % kPageSize.count() != 0) {
    configuration->memory = RoundDown(configuration->memory, kPageSize);
  }
  return problem->empty();
}

Nanoseconds Configuration::DurationOf(Bytes touched, bool of_host) const {
  if (!counts_time() || kernel_given) return kernel;
  // Of a recent data-centre GPU, roughly: enough that the host runs ahead of it.
  constexpr Nanoseconds kLaunch{5000};
  constexpr int64_t kDeviceBytes = 2000;  // A nanosecond.
  constexpr int64_t kHostBytes = 25;
  return kLaunch + Nanoseconds(touched.count() / (of_host ? kHostBytes : kDeviceBytes));
}

}  // namespace frugal::sim
