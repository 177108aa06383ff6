#include "simulated_gpu/machine/gpu_model.h"

#include <algorithm>
#include <climits>
#include <cstdint>
#include <optional>

#include "simulated_gpu/machine/setting_text.h"

namespace frugal::sim {
namespace {

// What follows from a compute capability, as the tables of NVIDIA's CUDA C++ Programming Guide have it.
struct ByCapability {
  int capability;
  int shared_of_block;           // KiB
  int shared_of_multiprocessor;  // KiB
  int threads;
  int blocks;
};

// A capability that is not here is like the last before it.
constexpr ByCapability kCapabilities[] = {
    {70, 96, 96, 2048, 32},    {75, 64, 64, 1024, 16},   {80, 163, 164, 2048, 32}, {86, 99, 100, 1536, 16},
    {87, 163, 164, 1536, 16},  {89, 99, 100, 1536, 24},  {90, 227, 228, 2048, 32}, {100, 227, 228, 2048, 32},
    {110, 227, 228, 1536, 24}, {120, 99, 100, 1536, 24},
};

void FollowCapability(GpuModel& model) {
  const ByCapability* like = &kCapabilities[0];
  for (const ByCapability& known : kCapabilities) {
    if (known.capability <= model.capability) like = &known;
  }
  model.shared_of_block = KiB(like->shared_of_block);
  model.shared_of_multiprocessor = KiB(like->shared_of_multiprocessor);
  model.threads = like->threads;
  model.blocks = like->blocks;
}

// "8.9" is 89.
std::optional<int> ParseCapability(std::string_view text) {
  const size_t dot = text.find('.');
  if (dot == std::string_view::npos || text.size() != dot + 2) return std::nullopt;
  const std::optional<int64_t> major = ParseNumber(text.substr(0, dot));
  const std::optional<int64_t> minor = ParseNumber(text.substr(dot + 1));
  if (!major || !minor || *major < 7 || *major > 99) return std::nullopt;
  return static_cast<int>(*major * 10 + *minor);
}

std::optional<int> ParseCount(std::string_view text, int64_t most) {
  const std::optional<int64_t> number = ParseNumber(text);
  return number && *number > 0 && *number <= most ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

bool Set(std::optional<int> value, int* into) {
  if (value) *into = *value;
  return value.has_value();
}

bool SetKibibytes(std::string_view text, Bytes* into) {
  int kibibytes = 0;
  if (!Set(ParseCount(text, 1 << 20), &kibibytes)) return false;
  *into = KiB(kibibytes);
  return true;
}

// "" if the model has the value now, else what is wrong.
std::string SetOne(std::string_view key, std::string_view value, GpuModel* model) {
  constexpr int64_t kMost = 1'000'000;
  if (key == "name") {
    const bool fits = !value.empty() && Shown(value) == value;
    if (fits) model->name = std::string(value);
    return fits ? "" : "name is to be printable, and no longer than 100 characters";
  }
  if (key == "capability") return Set(ParseCapability(value), &model->capability) ? "" : "capability is to be like 8.9";
  if (key == "multiprocessors") {
    return Set(ParseCount(value, 4096), &model->multiprocessors) ? "" : "multiprocessors is to be a number";
  }
  if (key == "l2") {
    const std::optional<Bytes> size = ParseBytes(value);
    const bool fits = size && size->count() <= INT_MAX;
    if (fits) model->l2 = *size;
    return fits ? "" : "l2 is to be bytes, such as 72MiB";
  }
  if (key == "shared_optin") return SetKibibytes(value, &model->shared_of_block) ? "" : "shared_optin is to be KiB";
  if (key == "shared_sm") return SetKibibytes(value, &model->shared_of_multiprocessor) ? "" : "shared_sm is to be KiB";
  if (key == "threads_sm") return Set(ParseCount(value, kMost), &model->threads) ? "" : "threads_sm is to be a number";
  if (key == "bus_width") return Set(ParseCount(value, kMost), &model->bus_bits) ? "" : "bus_width is to be bits";
  if (key == "memory_clock") {
    int megahertz = 0;
    if (!Set(ParseCount(value, kMost), &megahertz)) return "memory_clock is to be MHz";
    model->memory_kilohertz = megahertz * 1000;
    return "";
  }
  return "a key is name, capability, multiprocessors, l2, shared_optin, shared_sm, threads_sm, bus_width or "
         "memory_clock";
}

// Calls `each` with the key and the value of each part; the first problem that it returns is returned.
template <typename Each>
std::string ForEachPart(std::string_view text, Each each) {
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const size_t equals = part.find('=');
    if (equals == std::string_view::npos) return "it is to be key=value,key=value";
    if (std::string problem = each(part.substr(0, equals), part.substr(equals + 1)); !problem.empty()) return problem;
  }
  return "";
}

}  // namespace

bool GpuModel::Parse(std::string_view text, GpuModel* model, std::string* problem) {
  *model = GpuModel();
  model->is_given = true;
  // The capability comes first, wherever it stands: what is said beside it takes the place of what follows from it.
  *problem = ForEachPart(text, [&](std::string_view key, std::string_view value) {
    return key == "capability" ? SetOne(key, value, model) : "";
  });
  if (!problem->empty()) return false;
  if (model->capability != GpuModel().capability) FollowCapability(*model);
  *problem = ForEachPart(text, [&](std::string_view key, std::string_view value) { return SetOne(key, value, model); });
  return problem->empty();
}

int GpuModel::CompiledCapability() const {
  int compiled = capability;
  for (const int known : {70, 75, 80, 86, 90, 100, 110, 120}) {
    if (known / 10 == capability / 10 && known <= capability) compiled = known;
  }
  return compiled;
}

}  // namespace frugal::sim
