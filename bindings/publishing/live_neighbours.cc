#include "bindings/publishing/live_neighbours.h"

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "bindings/adapter/reclaimer.h"
#include "bindings/publishing/grants.h"
#include "bindings/publishing/live_document.h"
#include "bindings/publishing/neighbours.h"
#include "bindings/publishing/publisher.h"

namespace frugal {
namespace {

struct Live {
  explicit Live(GpuSet& set)
      : gpus(set),
        node(SimulatedNode()),
        grants([this](absl::string_view gpu, int64_t wanted) { return GiveBack(gpu, Bytes(wanted)); }) {}

  // The GPU's name that no other has, whatever number each process gives it; "": it is this process's alone, or the
  // driver does not say.
  std::string NameOf(const GpuMemory& gpu) const {
    std::string uuid = gpu.device().Uuid();
    if (!IsSimulated() || uuid.empty()) return uuid;
    return node.empty() ? "" : absl::StrCat(uuid, " of ", node);
  }

  Grants::Given GiveBack(absl::string_view name, Bytes wanted) {
    Grants::Given given;
    gpus.ForEach([&](GpuMemory& gpu) {
      if (NameOf(gpu) != name) return;
      const GpuMemory::Given some = gpus.GiveBack(gpu, wanted);
      given = {some.bytes.count(), some.is_all};
    });
    return given;
  }

  bool Ask(GpuMemory& gpu, Bytes wanted) {
    const auto free = [&gpu] {
      const absl::StatusOr<MemoryInfo> memory = gpu.device().GetMemoryInfo();
      return memory.ok() ? memory->free.count() : int64_t{0};
    };
    return neighbours.Ask(NameOf(gpu), wanted.count(), free);
  }

  GpuSet& gpus;
  const std::string node;
  Neighbours neighbours;
  Grants grants;
  Publisher door{Neighbours::kRoom, [this](int connection) { return grants.Answer(connection); }};
};

// Never destroyed.
Live* live = nullptr;

}  // namespace

void MakeLiveNeighbours(GpuSet& gpus) {
  live = new Live(gpus);
  live->door.GuardProcess();
  TorchReclaimer::SetNeighbours([](c10::DeviceIndex ordinal, Bytes wanted) {
    GpuMemory* const gpu = live->gpus.Find(ordinal);
    return gpu != nullptr && live->Ask(*gpu, wanted);
  });
}

void SetLiveNeighbours(bool is_wanted) {
  live->neighbours.Set(is_wanted);
  live->door.Set(is_wanted);
}

void BeginLiveNeighbours() { live->door.Begin(); }

}  // namespace frugal
