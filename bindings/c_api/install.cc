#include "bindings/c_api/install.h"

#include <c10/core/Allocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <dlfcn.h>
#include <pthread.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <typeinfo>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/base/const_init.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "bindings/adapter/journal.h"
#include "bindings/adapter/peer_access.h"
#include "bindings/adapter/torch_allocator.h"
#include "bindings/adapter/torch_compat.h"
#include "bindings/adapter/torch_symbol.h"
#include "bindings/publishing/live_figures.h"
#include "bindings/publishing/published_verdicts.h"
#include "bindings/settings/pytorch_settings.h"
#include "bindings/settings/settings.h"
#include "bindings/threads/forked_child.h"

namespace frugal {
namespace {

// Above native's own, which is 0 or 1: a lower one is ignored without a word.
constexpr uint8_t kRegistryPriority = 100;

ABSL_CONST_INIT absl::Mutex install_mutex(absl::kConstInit);
ABSL_CONST_INIT InstallState install_state ABSL_GUARDED_BY(install_mutex) = InstallState::kAbsent;

// In force once we are installed.
Settings& SettingsInForce() ABSL_EXCLUSIVE_LOCKS_REQUIRED(install_mutex) {
  static Settings* const settings = new Settings();
  return *settings;
}

enum class Request { kEnable, kDisable };

InstallState NextState(InstallState state, Request request) {
  if (request == Request::kEnable) return InstallState::kActive;
  return state == InstallState::kAbsent ? InstallState::kAbsent : InstallState::kPassthrough;
}

absl::Status CheckTorchVersion() {
  const int running = RunningTorchVersion();
  if (running == 0 || running == BuiltTorchVersion()) return absl::OkStatus();
  const auto name = [](int version) { return absl::StrCat(version / 100, ".", version % 100); };
  return absl::FailedPreconditionError(absl::StrCat("this library was built for torch ", name(BuiltTorchVersion()),
                                                    ", but torch ", name(running),
                                                    " is running: install a frugal_alloc built for it"));
}

absl::Status CheckDriver() {
  // Found, not started: that would be too early for a process that forks before it uses CUDA.
  if (dlopen("libcuda.so.1", RTLD_LAZY) != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "no NVIDIA driver (libcuda.so.1 is not here): run on a machine with a GPU, or under `frugal-alloc simulate`");
}

absl::Status CheckVisibleDevices() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr || (*visible != '\0' && *visible != '-')) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("CUDA_VISIBLE_DEVICES=\"", visible, "\" hides every GPU: unset it, or name one"));
}

absl::Status CheckBackend(caching::CUDAAllocator* current) {
  if (current == nullptr) {
    return absl::FailedPreconditionError("PyTorch has no CUDA allocator yet: import torch first");
  }
  // By the type's name, since another copy of the library has another type of that name. Both together would each hold
  // what the other cannot use.
  if (current != TorchAllocator::Instance() &&
      std::strcmp(typeid(*current).name(), typeid(TorchAllocator).name()) == 0) {
    return absl::FailedPreconditionError(
        "another copy of frugal_alloc's library is at work in this process: load one only, be it by enable(), by "
        "LD_PRELOAD or with a C++ trainer");
  }
  const std::string backend = current->name();
  if (backend == "native") return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("PyTorch's CUDA allocator is \"", backend,
                   "\"; frugal_alloc stands in for the native one only: leave backend out of PYTORCH_ALLOC_CONF, and "
                   "do not call change_current_allocator"));
}

// Whether the calling thread is inside use_mem_pool or a graph capture: PyTorch cannot be asked, but memory that
// native gives it now then lies in a private pool.
bool IsPoolOpen(caching::CUDAAllocator& native) {
  const c10::DataPtr marker = native.allocate(static_cast<size_t>(kGrain.count()));
  const auto address = reinterpret_cast<size_t>(marker.get());
  for (const caching_types::SegmentInfo& segment : TakeSnapshot(native, kDefaultPool, false).segments) {
    if (address >= segment.address && address < segment.address + segment.total_size) {
      return segment.owner_private_pool_id != kDefaultPool;
    }
  }
  return false;
}

absl::Status CheckNoOpenPool(caching::CUDAAllocator& native) {
  // Where there is no context yet there is no pool, and asking would make a context.
  if (!native.initialized() || !c10::cuda::hasPrimaryContext(c10::cuda::current_device())) return absl::OkStatus();
  if (!IsPoolOpen(native)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "enable() was called inside torch.cuda.use_mem_pool or a CUDA graph capture: call it before or after");
}

absl::Status CheckPreconditions(caching::CUDAAllocator* current) {
  for (absl::Status (*check)() : {&CheckTorchVersion, &CheckVisibleDevices, &CheckDriver}) {
    if (absl::Status status = check(); !status.ok()) return status;
  }
  if (absl::Status status = CheckBackend(current); !status.ok()) return status;
  return CheckNoOpenPool(*current);
}

// In the child, as its only thread.
void BecomeForkedChild() {
  Renew(install_mutex);
  PublishedVerdicts::Instance().BecomeForkedChild();
  if (TorchAllocator* const ours = TorchAllocator::Instance(); ours != nullptr) ours->BecomeForkedChild();
}

// Once in the life of the process, also where enabling fails after it.
absl::Status WatchForks() ABSL_EXCLUSIVE_LOCKS_REQUIRED(install_mutex) {
  static bool watches = false;
  if (watches) return absl::OkStatus();
  const int error = pthread_atfork(nullptr, nullptr, &BecomeForkedChild);
  if (error != 0) return absl::InternalError(absl::StrCat("pthread_atfork: ", std::strerror(error)));
  watches = true;
  return absl::OkStatus();
}

void Apply(const Settings& settings) {
  TorchAllocator::Instance()->Apply(settings);
  SetLivePublishing(settings.publish);
}

// Whatever may fail comes first, so that a later call can try again.
absl::Status Install(caching::CUDAAllocator* native, const Settings& settings)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(install_mutex) {
  if (absl::Status status = CheckPreconditions(native); !status.ok()) return status;
  const std::vector<Peers> peers = native->initialized() ? PeersOf(*native) : std::vector<Peers>();
  const bool uncached = !native->isEnabled() || IsCachingTurnedOff();
  if (absl::Status status = WatchForks(); !status.ok()) return status;
  // No GPU is open: nothing below asks the driver.
  TorchAllocator& ours = TorchAllocator::Create(*native);
  Journal::Instance().AttachTo(ours);
  MakeLivePublisher(ours.gpus());
  Apply(settings);
  for (const Peers& pair : peers) ours.gpus().AllowPeer(pair.device, pair.accessed);
  ours.routing().SetUncached(uncached);
  c10::SetAllocator(c10::DeviceType::CUDA, &ours, kRegistryPriority);
  caching::allocator.store(&ours);
  return absl::OkStatus();
}

// Until CUDA has started, a program may still put an allocator of its own in our place (change_current_allocator).
bool IsPyTorchsAllocator() { return caching::allocator.load() == TorchAllocator::Instance(); }

void GiveIdleMemoryBack(TorchAllocator& ours, bool to_native) {
  if (to_native) {
    ours.Trim();
  } else if (ours.native().initialized()) {
    ours.native().emptyCache(kDefaultPool);
  }
}

// Each side gives its idle memory back, so that the other can have it.
void ChangeHands(TorchAllocator& ours, bool to_native) {
  ours.routing().SetNewPeriod(true);
  ours.routing().SetPassthrough(to_native);
  // What fails once may be earlier work's failure, which the driver reports by whichever call comes next.
  for (const bool is_last : {false, true}) {
    try {
      return GiveIdleMemoryBack(ours, to_native);
    } catch (const std::exception& error) {
      if (is_last) {
        TORCH_WARN("frugal_alloc: idle memory could not be given back: ", error.what());
      }
    }
  }
}

absl::Status Perform(Request request, const Settings& settings) ABSL_EXCLUSIVE_LOCKS_REQUIRED(install_mutex) {
  const InstallState next = NextState(install_state, request);
  if (install_state != InstallState::kAbsent && TorchAllocator::Instance()->is_forked_from_cuda()) {
    if (request == Request::kDisable || next == install_state) return absl::OkStatus();
    return absl::FailedPreconditionError(
        "this process was forked from one that uses CUDA, which cannot be used here: start it with the \"spawn\" "
        "method of multiprocessing");
  }
  // c10's functions and the CUDA runtime's report errors by exceptions.
  try {
    if (install_state != InstallState::kAbsent) {
      if (request == Request::kEnable && !IsPyTorchsAllocator()) return CheckBackend(caching::allocator.load());
      Apply(settings);
    } else if (next != InstallState::kAbsent) {
      if (absl::Status status = Install(caching::allocator.load(), settings); !status.ok()) return status;
    }
  } catch (const std::exception& error) {
    return absl::InternalError(error.what());
  }
  if (next == install_state) return absl::OkStatus();
  // From here on it is so, whatever the driver says of idle memory.
  install_state = next;
  ChangeHands(*TorchAllocator::Instance(), next == InstallState::kPassthrough);
  return absl::OkStatus();
}

absl::StatusOr<Settings> KnownSettings() ABSL_EXCLUSIVE_LOCKS_REQUIRED(install_mutex) {
  if (install_state == InstallState::kAbsent) return SettingsOfEnvironment();
  return SettingsInForce();
}

}  // namespace

absl::Status Enable(absl::string_view settings) {
  const absl::StatusOr<bool> is_turned_off = IsTurnedOff();
  if (!is_turned_off.ok()) return is_turned_off.status();
  if (*is_turned_off) return absl::OkStatus();
  absl::MutexLock lock(&install_mutex);
  absl::StatusOr<Settings> changed = KnownSettings();
  if (!changed.ok()) return changed.status();
  const std::string costs_before = install_state == InstallState::kAbsent ? "" : changed->driver_costs;
  if (absl::Status status = ChangeSettings(settings, *changed); !status.ok()) return status;
  if (changed->driver_costs != costs_before) {
    if (absl::Status status = ReadDriverCosts(*changed); !status.ok()) return status;
  }
  absl::Status status = Perform(Request::kEnable, *changed);
  if (status.ok()) SettingsInForce() = *changed;
  return status;
}

absl::Status Disable() {
  absl::MutexLock lock(&install_mutex);
  return Perform(Request::kDisable, SettingsInForce());
}

absl::StatusOr<std::string> CurrentSettings() {
  absl::MutexLock lock(&install_mutex);
  const absl::StatusOr<Settings> settings = KnownSettings();
  if (!settings.ok()) return settings.status();
  return ToText(*settings);
}

absl::StatusOr<std::string> CurrentSetting(absl::string_view key) {
  absl::MutexLock lock(&install_mutex);
  const absl::StatusOr<Settings> settings = KnownSettings();
  if (!settings.ok()) return settings.status();
  return SettingText(key, *settings);
}

InstallState CurrentInstallState() {
  absl::MutexLock lock(&install_mutex);
  return install_state == InstallState::kActive && !IsPyTorchsAllocator() ? InstallState::kPassthrough : install_state;
}

int RunningTorchVersion() {
  constexpr char kFunction[] = "aoti_torch_abi_version";
  void* function = dlsym(RTLD_DEFAULT, kFunction);
  if (function == nullptr) function = FindInTorch(kFunction);
  if (function == nullptr) return 0;
  // Major, minor, patch and tweak, in the upper four bytes.
  const uint64_t version = reinterpret_cast<uint64_t (*)()>(function)();
  return static_cast<int>(version >> 56) * 100 + static_cast<int>(version >> 48 & 0xff);
}

int BuiltTorchVersion() { return 200 + FRUGAL_TORCH_MINOR; }

}  // namespace frugal
