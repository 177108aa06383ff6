#include "bindings/c_api/c_api.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bindings/adapter/host_memory_text.h"
#include "bindings/adapter/shareable_storage.h"
#include "bindings/adapter/torch_allocator.h"
#include "bindings/c_api/c_api_results.h"
#include "bindings/c_api/install.h"
#include "bindings/settings/pytorch_settings.h"

namespace frugal {
namespace {

// Where a function keeps the text that it gave the calling thread last.
template <auto Function>
std::string& LentText() {
  thread_local std::string text;
  return text;
}

template <auto Function>
const char* Lend(absl::string_view text) {
  LentText<Function>().assign(text.data(), text.size());
  return LentText<Function>().c_str();
}

// What the figures of one GPU are taken from, read at about one moment.
struct Reading {
  DeviceStats stats;      // ours alone, with the peaks of all phases
  Statistics statistics;  // for what PyTorch's form has no place for
  bool virtual_memory;
  DeviceStats native;
  Bytes limit;  // kUnlimited: none
  Bytes asleep;
  Bytes host_copies;
};

struct Figure {
  const char* name;
  int64_t (*value)(const Reading& reading);
};

// Documented in frugal_alloc/__init__.py, stats().
constexpr Figure kFigures[] = {
    {"allocated_bytes", [](const Reading& r) { return r.stats.allocated_bytes[0].current; }},
    {"peak_allocated_bytes", [](const Reading& r) { return r.stats.allocated_bytes[0].peak; }},
    {"requested_bytes", [](const Reading& r) { return r.stats.requested_bytes[0].current; }},
    {"peak_requested_bytes", [](const Reading& r) { return r.stats.requested_bytes[0].peak; }},
    {"active_bytes", [](const Reading& r) { return r.stats.active_bytes[0].current; }},
    {"peak_active_bytes", [](const Reading& r) { return r.stats.active_bytes[0].peak; }},
    {"reserved_bytes", [](const Reading& r) { return r.stats.reserved_bytes[0].current; }},
    {"peak_reserved_bytes", [](const Reading& r) { return r.stats.reserved_bytes[0].peak; }},
    {"blocks", [](const Reading& r) { return r.stats.allocation[0].current; }},
    {"allocations", [](const Reading& r) { return r.stats.allocation[0].allocated; }},
    {"frees", [](const Reading& r) { return r.stats.allocation[0].freed; }},
    {"stitches", [](const Reading& r) { return r.statistics.num_stitches; }},
    {"stitched_bytes", [](const Reading& r) { return Pages(r.statistics.num_stitched_pages).bytes().count(); }},
    {"stream_waits", [](const Reading& r) { return r.statistics.num_stream_waits; }},
    {"host_waits", [](const Reading& r) { return r.statistics.num_sync_all_streams; }},
    {"retries", [](const Reading& r) { return r.statistics.num_alloc_retries; }},
    {"out_of_memory_errors", [](const Reading& r) { return r.statistics.num_ooms; }},
    {"device_allocations", [](const Reading& r) { return r.statistics.num_device_alloc; }},
    {"device_frees", [](const Reading& r) { return r.statistics.num_device_free; }},
    {"driver_failures", [](const Reading& r) { return r.statistics.num_driver_failures; }},
    {"native_reserved_bytes", [](const Reading& r) { return r.native.reserved_bytes[0].current; }},
    {"native_allocated_bytes", [](const Reading& r) { return r.native.allocated_bytes[0].current; }},
    {"asleep_bytes", [](const Reading& r) { return r.asleep.count(); }},
    {"host_copy_bytes", [](const Reading& r) { return r.host_copies.count(); }},
    {"limit_bytes", [](const Reading& r) { return r.limit < kUnlimited ? r.limit.count() : 0; }},
    {"virtual_memory", [](const Reading& r) { return static_cast<int64_t>(r.virtual_memory); }},
};

// What follows them: of each kind of driver call, how many there were and how long they took.
constexpr const char* kTimeEndings[] = {"calls", "ns", "worst_ns"};
constexpr size_t kFigureCount = std::size(kFigures) + kDriverCallNames.size() * std::size(kTimeEndings);

std::string JoinNames() {
  std::string names;
  for (const Figure& figure : kFigures) names += (names.empty() ? "" : " ") + std::string(figure.name);
  for (const std::string_view call : kDriverCallNames) {
    for (const char* ending : kTimeEndings) names += " driver_" + std::string(call) + "_" + ending;
  }
  return names;
}

std::vector<int64_t> FiguresOf(GpuMemory& gpu) {
  const Reading reading{gpu.statistics().Ours(),
                        gpu.allocator().GetStatistics(),
                        gpu.device().HasVirtualMemory(),
                        gpu.native_share().Stats(),
                        gpu.allocator().settings().limit().most(),
                        TorchAllocator::Instance()->sleeper().AsleepBytes(gpu),
                        gpu.host_copies().host()};
  std::vector<int64_t> figures;
  figures.reserve(kFigureCount);
  for (const Figure& figure : kFigures) figures.push_back(figure.value(reading));
  for (size_t call = 0; call < kDriverCallNames.size(); ++call) {
    const DriverTime time = gpu.device().times().Of(static_cast<DriverCall>(call));
    figures.insert(figures.end(), {time.calls, time.total, time.worst});
  }
  return figures;
}

}  // namespace

GpuMemory* FindGpu(int number) {
  TorchAllocator* const allocator = TorchAllocator::Instance();
  // A narrower type than int: a number that it cannot hold names no GPU.
  const auto ordinal = static_cast<c10::DeviceIndex>(number);
  return allocator == nullptr || ordinal != number ? nullptr : allocator->gpus().Find(ordinal);
}

std::string& LastError() {
  thread_local std::string error;
  return error;
}

int Failed(absl::string_view message) {
  LastError().assign(message.data(), message.size());
  return -1;
}

namespace {

// What the thread was lent last; a long one is let go of with the next.
std::string& LentJson() {
  thread_local std::string lent;
  return lent;
}

}  // namespace

const char* LendJson(std::string json) {
  LentJson() = std::move(json);
  return LentJson().c_str();
}

}  // namespace frugal

const char* frugal_last_error(void) { return frugal::LastError().c_str(); }

int frugal_built_torch_version(void) { return frugal::BuiltTorchVersion(); }

int frugal_running_torch_version(void) { return frugal::RunningTorchVersion(); }

int frugal_enable(void) { return frugal::ToResult(frugal::Enable("")); }

int frugal_enable_with(const char* settings) {
  return frugal::ToResult(frugal::Enable(settings == nullptr ? "" : settings));
}

const char* frugal_settings(void) {
  const absl::StatusOr<std::string> settings = frugal::CurrentSettings();
  if (!settings.ok()) {
    frugal::Failed(settings.status().message());
    return nullptr;
  }
  return frugal::Lend<&frugal_settings>(*settings);
}

const char* frugal_setting(const char* key) {
  const absl::StatusOr<std::string> value = frugal::CurrentSetting(key);
  if (!value.ok()) {
    frugal::Failed(value.status().message());
    return nullptr;
  }
  return frugal::Lend<&frugal_setting>(*value);
}

const char* frugal_unfollowed_settings(const char* settings) {
  return frugal::Lend<&frugal_unfollowed_settings>(
      frugal::UnfollowedSettings(settings == nullptr ? frugal::PyTorchSettingsOfEnvironment() : settings));
}

int frugal_disable(void) { return frugal::ToResult(frugal::Disable()); }

int frugal_is_enabled(void) { return frugal::CurrentInstallState() == frugal::InstallState::kActive; }

int64_t frugal_trim(void) {
  return frugal::WithAllocator([](frugal::TorchAllocator& allocator) { return allocator.Trim().count(); });
}

int64_t frugal_release_idle(void) {
  return frugal::WithAllocator([](frugal::TorchAllocator& allocator) {
    const absl::StatusOr<frugal::Bytes> released = allocator.gpus().ReleaseIdle();
    return released.ok() ? released->count() : frugal::Failed(released.status().message());
  });
}

int frugal_make_room(void) {
  return static_cast<int>(frugal::WithAllocator([](frugal::TorchAllocator& allocator) {
    allocator.gpus().MakeRoom();
    return 0;
  }));
}

const char* frugal_stat_names(void) {
  static const std::string* const names = new std::string(frugal::JoinNames());
  return names->c_str();
}

int frugal_stats(int device, int64_t* figures, int capacity) {
  if (frugal::TorchAllocator::Instance() == nullptr) return frugal::Failed(frugal::kNotEnabled);
  constexpr int kCount = static_cast<int>(frugal::kFigureCount);
  const int written = std::min(kCount, capacity);
  frugal::GpuMemory* const gpu = frugal::FindGpu(device);
  if (gpu == nullptr) {
    std::fill_n(figures, written, 0);
  } else {
    std::copy_n(frugal::FiguresOf(*gpu).begin(), written, figures);
  }
  return kCount;
}

const char* frugal_broken_promise(int device) {
  const frugal::GpuMemory* const gpu = frugal::FindGpu(device);
  return gpu == nullptr ? "" : gpu->device().broken_promise().c_str();
}

const char* frugal_host_memory(int device) {
  frugal::GpuMemory* const gpu = frugal::FindGpu(device);
  return frugal::Lend<frugal_host_memory>(gpu == nullptr ? "" : frugal::DescribeHostMemory(*gpu));
}

int frugal_owns(const void* address) {
  frugal::TorchAllocator* const allocator = frugal::TorchAllocator::Instance();
  return allocator != nullptr && allocator->gpus().OwnerOf(address) != nullptr;
}

int frugal_follow_settings(const char* settings) {
  frugal::TorchAllocator* const allocator = frugal::TorchAllocator::Instance();
  return allocator != nullptr && allocator->expandable_segments().Follow(settings);
}

const char* frugal_shown_settings(const char* settings) {
  frugal::TorchAllocator* const allocator = frugal::TorchAllocator::Instance();
  if (allocator == nullptr) return settings;
  return frugal::Lend<&frugal_shown_settings>(allocator->expandable_segments().Shown(settings));
}

int frugal_cuda_malloc(int enter) {
  return static_cast<int>(frugal::WithAllocator([enter](frugal::TorchAllocator& allocator) {
    enter != 0 ? allocator.routing().EnterCudaMalloc() : allocator.routing().LeaveCudaMalloc();
    return 0;
  }));
}

int frugal_keep_in_place(const void* address, int64_t bytes, int keep) {
  frugal::TorchAllocator* const allocator = frugal::TorchAllocator::Instance();
  if (bytes < 0) return frugal::Failed("a range cannot have fewer than 0 bytes");
  frugal::GpuMemory* const gpu = allocator == nullptr ? nullptr : allocator->gpus().OwnerOf(address);
  if (gpu == nullptr || bytes == 0) return 0;
  const absl::Status status = gpu->allocator().KeepInPlace(frugal::Address(address), frugal::Bytes(bytes), keep != 0);
  return frugal::ToResult(status);
}

int frugal_await_shareable(void* storage) {
  return static_cast<int>(frugal::WithAllocator([storage](frugal::TorchAllocator& allocator) {
    frugal::AwaitShareable(allocator, *static_cast<const c10::StorageImpl*>(storage));
    return 0;
  }));
}

int frugal_make_shareable(void* storage) {
  return static_cast<int>(frugal::WithAllocator([storage](frugal::TorchAllocator& allocator) {
    return frugal::MakeShareable(allocator, *static_cast<c10::StorageImpl*>(storage)) ? 1 : 0;
  }));
}

int frugal_owns_its_memory(void* storage) {
  return static_cast<int>(frugal::WithAllocator([storage](frugal::TorchAllocator& allocator) {
    return allocator.IsOwner(static_cast<const c10::StorageImpl*>(storage)->data_ptr()) ? 1 : 0;
  }));
}

void frugal_set_garbage_collector(int (*collector)(void)) { frugal::TorchReclaimer::SetGarbageCollector(collector); }

void frugal_set_history_only_ours(int value) {
  if (frugal::TorchAllocator* allocator = frugal::TorchAllocator::Instance(); allocator != nullptr) {
    allocator->SetHistoryOnlyOurs(value != 0);
  }
}
