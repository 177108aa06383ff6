#include "cuda/driver_api.h"

#include <dlfcn.h>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace frugal {
namespace {

constexpr char kLibrary[] = "libcuda.so.1";

// Where a later call finds what an earlier one loaded.
struct LoadedDriver {
  absl::Mutex mutex;
  const DriverApi* api ABSL_GUARDED_BY(mutex) = nullptr;
};

LoadedDriver& Loaded() {
  static LoadedDriver* loaded = new LoadedDriver;
  return *loaded;
}

absl::Status Lookup(void* library, DriverApi& api) {
#define FRUGAL_LOOKUP(name, symbol) api.name = reinterpret_cast<decltype(&::symbol)>(dlsym(library, #symbol));
  FRUGAL_DRIVER_REQUIRED(FRUGAL_LOOKUP)
  FRUGAL_DRIVER_VIRTUAL_MEMORY(FRUGAL_LOOKUP)
  FRUGAL_DRIVER_OPTIONAL(FRUGAL_LOOKUP)
#undef FRUGAL_LOOKUP

#define FRUGAL_REQUIRE(name, symbol)                                                    \
  if (api.name == nullptr) {                                                            \
    return absl::FailedPreconditionError(                                               \
        absl::StrCat(kLibrary, " has no ", #symbol, ": the NVIDIA driver is too old")); \
  }
  FRUGAL_DRIVER_REQUIRED(FRUGAL_REQUIRE)
#undef FRUGAL_REQUIRE

  api.has_virtual_memory = true;
#define FRUGAL_NOTE_MISSING(name, symbol) \
  if (api.name == nullptr) api.has_virtual_memory = false;
  FRUGAL_DRIVER_VIRTUAL_MEMORY(FRUGAL_NOTE_MISSING)
#undef FRUGAL_NOTE_MISSING
  return absl::OkStatus();
}

bool IsCaptureError(CUresult result) {
  return result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && result <= CUDA_ERROR_CAPTURED_EVENT;
}

}  // namespace

absl::StatusOr<const DriverApi*> DriverApi::Get() {
  LoadedDriver& loaded = Loaded();
  absl::MutexLock lock(&loaded.mutex);
  if (loaded.api != nullptr) return loaded.api;
  // Never closed: the driver keeps threads and exit handlers of its own.
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("no NVIDIA driver: ", dlerror()));
  }
  DriverApi api;
  if (absl::Status status = Lookup(library, api); !status.ok()) return status;
  if (CUresult result = api.Init(0); result != CUDA_SUCCESS) {
    return absl::FailedPreconditionError(api.ToStatus(result, "cuInit").message());
  }
  loaded.api = new DriverApi(api);
  return loaded.api;
}

absl::Status DriverApi::ToStatus(CUresult result, absl::string_view call) const {
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  const char* name = nullptr;
  const char* text = nullptr;
  GetErrorName(result, &name);
  GetErrorString(result, &text);
  const std::string message =
      name == nullptr ? absl::StrCat(call, ": CUDA driver error ", static_cast<int>(result))
                      : absl::StrCat(call, ": ", name, text == nullptr ? "" : absl::StrCat(" (", text, ")"));
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return absl::ResourceExhaustedError(message);
  if (IsCaptureError(result)) return absl::UnavailableError(message);
  return absl::InternalError(message);
}

}  // namespace frugal
