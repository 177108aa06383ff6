#include "cuda/simulated/machine.h"

#include <charconv>
#include <numeric>
#include <string>

#include "cuda/simulated/latency_model.h"

namespace frugal::sim {
namespace {

std::vector<int> AllSlots(int gpus) {
  std::vector<int> slots(gpus);
  std::iota(slots.begin(), slots.end(), 0);
  return slots;
}

std::optional<int> SlotOf(std::string_view name, int gpus) {
  while (name.starts_with(' ')) name.remove_prefix(1);
  while (name.ends_with(' ')) name.remove_suffix(1);
  for (int slot = 0; slot < gpus; ++slot) {
    // A beginning of the UUID is enough.
    if (name.starts_with("GPU-") && Gpu::UuidText(slot).starts_with(name)) return slot;
  }
  int slot = 0;
  const auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), slot);
  if (problem != std::errc() || end != name.data() + name.size() || slot < 0 || slot >= gpus) return std::nullopt;
  return slot;
}

}  // namespace

Machine::Machine(const Configuration& configuration) : Machine(configuration, AllSlots(configuration.gpus)) {}

Machine::Machine(const Configuration& configuration, const std::vector<int>& slots)
    : configuration_(configuration),
      gpus_([&] {
        std::vector<std::unique_ptr<Gpu>> gpus;
        for (int slot : slots) {
          gpus.push_back(
              std::make_unique<Gpu>(slot, configuration.memory, configuration.context, configuration.backing));
        }
        return gpus;
      }()),
      gpu_count_(static_cast<int>(slots.size())),
      order_(configuration.order ? std::make_unique<OrderChecker>() : nullptr),
      streams_(clock_, calls_, order_.get()),
      virtual_memory_({addresses_, Memories(), calls_, [this](int gpu) { return streams_.IsBusy(gpu); }, order_.get()},
                      configuration.virtual_memory),
      segments_(addresses_, Memories(), calls_, order_.get()) {
  calls_.SetFaults(configuration.faults);
}

std::vector<int> Machine::VisibleSlots(const char* visible_devices, int gpus) {
  if (visible_devices == nullptr) return AllSlots(gpus);
  std::vector<int> slots;
  std::string_view rest = visible_devices;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::optional<int> slot = SlotOf(rest.substr(0, comma), gpus);
    if (!slot) break;
    slots.push_back(*slot);
    rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
  }
  return slots;
}

std::vector<PhysicalMemory*> Machine::Memories() {
  std::vector<PhysicalMemory*> memories;
  for (const auto& gpu : gpus_) memories.push_back(&gpu->memory());
  return memories;
}

Error Machine::GetMemoryInfo(int gpu, Bytes* free, Bytes* total) {
  if (const Error fault = calls_.Begin(CallKind::kMemoryInfo, LatencyModel::Uncharged()); fault != Error::kSuccess) {
    return fault;
  }
  const PhysicalMemory& memory = gpus_[gpu]->memory();
  *free = memory.free();
  *total = memory.total();
  return Error::kSuccess;
}

Error Machine::FreeSegment(Address start) {
  if (const std::optional<Segments::Segment> segment = segments_.Find(start)) streams_.WaitForGpu(segment->gpu);
  return segments_.Free(start);
}

std::optional<Machine::Allocation> Machine::FindAllocation(Address address) const {
  if (const auto segment = segments_.Find(address)) {
    return Allocation{segment->start, segment->size, segment->gpu, segment->kind};
  }
  if (const auto view = virtual_memory_.Find(address)) {
    return Allocation{view->start, view->size, view->gpu, Segments::Kind::kDevice};
  }
  return std::nullopt;
}

}  // namespace frugal::sim
