#include "simulated_gpu/machine/configuration.h"

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "allocator/port/driver_costs.h"
#include "simulated_gpu/machine/setting_text.h"

namespace frugal::sim {
namespace {

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

// nullptr if there is a value, which is then in `into`; otherwise `expected`.
template <typename Value>
const char* Put(const std::optional<Value>& value, Value* into, const char* expected) {
  if (value) *into = *value;
  return value ? nullptr : expected;
}

// A number from `least` to `most`.
template <typename Number>
std::optional<Number> NumberIn(std::string_view text, int64_t least, int64_t most) {
  const std::optional<int64_t> number = ParseNumber(text);
  return number && *number >= least && *number <= most ? std::optional(static_cast<Number>(*number)) : std::nullopt;
}

// Each understands a variable's text by the type of what it sets; not nullptr: what it is to be.
const char* Understand(std::string_view text, Bytes* into) {
  return Put(ParseBytes(text), into, "bytes, such as 536870912 or 512MiB");
}
const char* Understand(std::string_view text, bool* into) {
  return Put(text == "1" || text == "0" ? std::optional(text == "1") : std::nullopt, into, "0 or 1");
}
const char* Understand(std::string_view text, int* into) {
  return Put(NumberIn<int>(text, 1, Configuration::kMostGpus), into, "a number from 1 to 16");
}
const char* Understand(std::string_view text, int64_t* into) {
  return Put(NumberIn<int64_t>(text, 1, INT64_MAX), into, "a number above 0, such as 65530");
}
const char* Understand(std::string_view text, Nanoseconds* into) {
  return Put(NumberIn<Nanoseconds>(text, 0, INT64_MAX), into, "nanoseconds, such as 10000");
}
const char* Understand(std::string_view text, std::string* into) {
  return Put(std::optional(std::string(text)), into, "a file, such as /dev/shm/node");
}
const char* Understand(std::string_view text, FaultPlan* into) {
  return Put(FaultPlan::Parse(text), into, "a plan, such as create@3=out_of_memory,map@1+=invalid_value");
}

// Reads variables one by one until one is not understood. An empty variable counts as one that is not set.
class Reader {
 public:
  explicit Reader(std::string* problem) : problem_(problem) {}

  template <typename Value>
  void Read(const char* name, Value* into) {
    Read(name, [into](const char* text) -> std::string {
      const char* const expected = Understand(text, into);
      return expected == nullptr ? "" : expected;
    });
  }
  // One of two words.
  template <typename Value>
  void Read(const char* name, std::string_view first, Value of_first, std::string_view second, Value of_second,
            Value* into) {
    Read(name, [&](std::string_view text) -> std::string {
      if (text != first && text != second) return std::string(first) + " or " + std::string(second);
      *into = text == first ? of_first : of_second;
      return "";
    });
  }

 private:
  void Read(const char* name, const std::function<std::string(const char* text)>& understand) {
    const char* text = std::getenv(name);
    if (!problem_->empty() || text == nullptr || *text == '\0') return;
    const std::string expected = understand(text);
    if (expected.empty()) return;
    *problem_ = std::string(name) + "='" + Shown(text) + "' is not understood; set it to " + expected;
  }

  std::string* const problem_;
};

// What docs/simulated_gpu_inside.md lists, but for those that are longer than a value.
void ReadValues(Reader& reader, Configuration* configuration) {
  reader.Read("FRUGAL_SIM_MEMORY", &configuration->memory);
  reader.Read("FRUGAL_SIM_CONTEXT", &configuration->context);
  reader.Read("FRUGAL_SIM_GPUS", &configuration->gpus);
  reader.Read("FRUGAL_SIM_BEYOND", &configuration->beyond);
  reader.Read("FRUGAL_SIM_KERNEL_NS", &configuration->kernel);
  reader.Read("FRUGAL_SIM_BACKING", "memory", Backing::kMemory, "none", Backing::kNone, &configuration->backing);
  reader.Read("FRUGAL_SIM_KEEP", &configuration->keep);
  reader.Read("FRUGAL_SIM_TIME", "modelled", true, "wall", false, &configuration->modelled_time);
  reader.Read("FRUGAL_SIM_VMM", &configuration->virtual_memory);
  reader.Read("FRUGAL_SIM_VERBOSE", &configuration->verbose);
  reader.Read("FRUGAL_SIM_UNSUPPORTED", "end", true, "refuse", false, &configuration->unsupported_ends);
  reader.Read("FRUGAL_SIM_ORDER", &configuration->order);
  reader.Read("FRUGAL_SIM_STRICT", &configuration->strict);
  reader.Read("FRUGAL_SIM_LATE", &configuration->late);
  reader.Read("FRUGAL_SIM_FAULTS", &configuration->faults);
  reader.Read("FRUGAL_SIM_DRIVER_TIME", &configuration->driver_time);
  reader.Read("FRUGAL_SIM_NODE", &configuration->node);
  reader.Read("FRUGAL_SIM_MAPPINGS", &configuration->mapped_handles);
  reader.Read("FRUGAL_SIM_ADDRESSES", &configuration->addresses);
  reader.Read("FRUGAL_SIM_MAP_COUNT", &configuration->host_mappings);
  reader.Read("FRUGAL_SIM_FULL", &configuration->driver_memory.on);
  reader.Read("FRUGAL_SIM_MODULE", &configuration->driver_memory.module);
  reader.Read("FRUGAL_SIM_UNIFIED", &configuration->host.on);
  reader.Read("FRUGAL_SIM_HOST_OTHERS", &configuration->host.others);
  reader.Read("FRUGAL_SIM_HOST_CACHE", &configuration->host.cache);
  reader.Read("FRUGAL_SIM_GROUP_LIMIT", &configuration->host.group_limit);
  reader.Read("FRUGAL_SIM_GROUP_COUNTS_GPU", &configuration->host.group_counts_gpu);
  configuration->kernel_given = std::getenv("FRUGAL_SIM_KERNEL_NS") != nullptr;
  // The program computes values at once, beside what we do.
  const char* values = std::getenv("FRUGAL_SIM_VALUES");
  configuration->late_data = values == nullptr || std::string_view(values) != "cpu";
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
  ReadValues(reader, configuration);
  ReadLong("FRUGAL_SIM_GPU", problem, [&](const char* text) {
    std::string refused;
    GpuModel::Parse(text, &configuration->model, &refused);
    return refused;
  });
  configuration->models_workspaces = configuration->model.is_given;
  reader.Read("FRUGAL_SIM_WORKSPACES", "modelled", true, "plain", false, &configuration->models_workspaces);
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
