#include "simulated_gpu/machine/machine.h"

#include <numeric>
#include <string>

#include "simulated_gpu/machine/setting_text.h"

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
  const std::optional<int64_t> slot = ParseNumber(name);
  return slot && *slot < gpus ? std::optional(static_cast<int>(*slot)) : std::nullopt;
}

std::unique_ptr<Quota> MappedHandles(ComputeNode* node, int64_t most) {
  if (node == nullptr) return std::make_unique<Quota>(most);
  return std::make_unique<ComputeNodeMappedHandles>(*node);
}

}  // namespace

Machine::Machine(const Configuration& configuration) : Machine(configuration, AllSlots(configuration.gpus)) {}

Machine::Machine(const Configuration& configuration, const std::vector<int>& slots, std::unique_ptr<ComputeNode> node)
    : configuration_(configuration),
      node_(std::move(node)),
      unified_host_(configuration.host),
      gpus_([&] {
        std::vector<std::unique_ptr<Gpu>> gpus;
        for (int slot : slots) {
          gpus.push_back(std::make_unique<Gpu>(slot, configuration.memory, configuration.context, configuration.backing,
                                               node_.get(), unified_host_.is_on() ? &unified_host_ : nullptr));
        }
        return gpus;
      }()),
      gpu_count_(static_cast<int>(slots.size())),
      driver_lock_(clock_, node_.get()),
      // On a clock that counts calls they take their time anyway.
      calls_(configuration.costs, configuration.driver_time && !configuration.counts_time() ? &driver_lock_ : nullptr),
      addresses_(configuration.addresses),
      mapped_handles_(MappedHandles(node_.get(), configuration.mapped_handles)),
      host_mappings_(configuration.host_mappings),
      driver_memory_(Memories(), configuration.driver_memory),
      contexts_(gpu_count_, static_cast<unsigned>(configuration.model.multiprocessors)),
      mappings_(configuration.late ? std::make_unique<MappingLog>(clock_) : nullptr),
      order_(configuration.wants_uses() ? std::make_unique<OrderChecker>(mappings_.get()) : nullptr),
      late_(configuration.late ? std::make_unique<LateWork>(*mappings_) : nullptr),
      streams_(clock_, calls_, contexts_,
               {order(), late_.get(), configuration.late_data, configuration.modelled_time && !configuration.late}),
      host_memory_(unified_host_.is_on() ? &unified_host_ : nullptr),
      virtual_memory_({.addresses = addresses_,
                       .memory = Memories(),
                       .calls = calls_,
                       .mapped_handles = *mapped_handles_,
                       .host_mappings = host_mappings_,
                       .driver_memory = driver_memory_,
                       .is_busy = [this](int gpu) { return streams_.of(gpu).IsBusy(); },
                       .order = order_.get()},
                      configuration.virtual_memory),
      segments_({.addresses = addresses_,
                 .memory = Memories(),
                 .calls = calls_,
                 .peers = peers_,
                 .mapped_handles = *mapped_handles_,
                 .host_mappings = host_mappings_,
                 .order = order_.get()}) {
  calls_.SetFaults(configuration.faults);
  if (configuration.beyond) {
    for (PhysicalMemory* memory : Memories()) memory->AllowBeyond();
  }
  if (!configuration.counts_time()) return;
  clock_.CountCalls();
  calls_.TakeTimeOn(clock_, configuration.late ? Calls::kShortestCall : Calls::kOperator);
  if (late_ == nullptr) return;
  clock_.OnMove([this] { late_->RunUntil(clock_.Now()); });
  if (configuration.order) late_->OnFault([this](const std::string& fault) { order_->Tell(fault); });
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
  RETURN_IF_ERROR(calls_.Begin(CallKind::kMemoryInfo));
  const PhysicalMemory& memory = gpus_[gpu]->memory();
  *free = unified_host_.is_on() ? unified_host_.Free(memory.free()) : memory.free();
  *total = memory.total();
  return Error::kSuccess;
}

std::optional<std::string> Machine::HostFile(std::string_view path) {
  if (!unified_host_.is_on() || !HasGpu(0)) return std::nullopt;
  const PhysicalMemory& memory = gpus_[0]->memory();
  return unified_host_.File(path, memory.total(), memory.taken());
}

Error Machine::AllocateHost(Bytes size, void** start) {
  if (unified_host_.is_on() && !configuration_.beyond && HasGpu(0) && gpus_[0]->memory().free() < size) {
    unified_host_.NoteOverload(size, gpus_[0]->memory().free());
    return Error::kOutOfMemory;
  }
  return host_memory_.Allocate(size, start);
}

Error Machine::FreeSegment(Address start) {
  if (const std::optional<Segments::Segment> segment = segments_.Find(start)) streams_.of(segment->gpu).Wait();
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

AddressSpace::Access Machine::AccessOf(int gpu, Address address) const {
  if (const auto segment = segments_.Find(address)) {
    const bool reaches =
        segment->gpu == gpu || segment->kind != Segments::Kind::kDevice || peers_.IsEnabled(gpu, segment->gpu);
    return reaches ? AddressSpace::Access::kReadWrite : AddressSpace::Access::kNone;
  }
  AddressSpace::Access access = AddressSpace::Access::kNone;
  if (virtual_memory_.GetAccess(address, gpu, &access) == Error::kSuccess) return access;
  return host_memory_.Contains(address.pointer()) ? AddressSpace::Access::kReadWrite : AddressSpace::Access::kNone;
}

}  // namespace frugal::sim
