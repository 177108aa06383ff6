#include "cuda/simulated/libraries/nccl_gpu.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace frugal::sim::nccl {
namespace {

// cudaDeviceAttr
constexpr int kPciBus = 33;
constexpr int kMajor = 75;
constexpr int kMinor = 76;

// At run time, so that one stand-in serves whichever CUDA runtime the program has loaded.
template <typename Function>
Function Find(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

int Attribute(int attribute, int gpu) {
  static const auto get = Find<int (*)(int*, int, int)>("cudaDeviceGetAttribute");
  int value = 0;
  return get != nullptr && get(&value, attribute, gpu) == 0 ? value : 0;
}

void SetGpu(int gpu) {
  static const auto set = Find<int (*)(int)>("cudaSetDevice");
  if (set != nullptr) (void)set(gpu);
}

bool Is(const char* variable, const char* value) {
  const char* const text = std::getenv(variable);
  return text != nullptr && std::strcmp(text, value) == 0;
}

// What graphs call, in the order of its capture.
class Captures {
 public:
  static Captures& All() {
    static auto* captures = new Captures;
    return *captures;
  }

  void Add(const std::function<void()>* call) {
    const std::lock_guard lock(mutex_);
    calls_.push_back(call);
  }
  int count() const {
    const std::lock_guard lock(mutex_);
    return static_cast<int>(calls_.size());
  }
  const std::function<void()>* Get(int number) const {
    const std::lock_guard lock(mutex_);
    return number >= 0 && number < static_cast<int>(calls_.size()) ? calls_[number] : nullptr;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<const std::function<void()>*> calls_;
};

}  // namespace

int CurrentGpu() {
  static const auto get = Find<int (*)(int*)>("cudaGetDevice");
  int gpu = 0;
  if (get != nullptr) (void)get(&gpu);
  return gpu;
}

OnGpu::OnGpu(int gpu) : before_(CurrentGpu()) {
  if (gpu == before_) {
    before_ = -1;
  } else {
    SetGpu(gpu);
  }
}

OnGpu::~OnGpu() {
  if (before_ >= 0) SetGpu(before_);
}

uint64_t IdentityOf(int gpu) { return static_cast<uint64_t>(Attribute(kPciBus, gpu)); }

ComputeCapability ComputeCapabilityOf(int gpu) { return {Attribute(kMajor, gpu), Attribute(kMinor, gpu)}; }

bool Allocate(void** memory, size_t size) {
  static const auto allocate = Find<int (*)(void**, size_t)>("cudaMalloc");
  return allocate != nullptr && allocate(memory, size) == 0;
}

bool Free(void* memory) {
  static const auto free = Find<int (*)(void*)>("cudaFree");
  return free != nullptr && free(memory) == 0;
}

bool IsCapturing(Stream stream) {
  static const auto ask = Find<int (*)(Stream, int*)>("cudaStreamIsCapturing");
  int status = 0;
  return ask != nullptr && ask(stream, &status) == 0 && status != 0;
}

bool HasBacking() {
  static const bool result = !Is("FRUGAL_SIM_BACKING", "none");
  return result;
}

bool HasAllValues() {
  static const bool result = Is("FRUGAL_SIM_VALUES", "cpu");
  return result;
}

bool WorkIsLate() {
  static const bool result = Is("FRUGAL_SIM_LATE", "1") && !HasAllValues();
  return result;
}

void FinishLateWork() {
  static const auto synchronize = Find<int (*)()>("cudaDeviceSynchronize");
  if (WorkIsLate() && synchronize != nullptr) (void)synchronize();
}

bool CallOnStream(Stream stream, std::function<void()> run) {
  using HostFunction = void (*)(void*);
  static const auto launch = Find<int (*)(Stream, HostFunction, void*)>("cudaLaunchHostFunc");
  if (launch == nullptr) return false;
  const bool stays = IsCapturing(stream);
  auto owned = std::make_unique<std::function<void()>>(std::move(run));
  // Nobody says when a graph has run for the last time, so what one calls stays.
  const HostFunction call =
      stays ? [](void* function) { (*static_cast<std::function<void()>*>(function))(); } : [](void* function) {
        const std::unique_ptr<std::function<void()>> once(static_cast<std::function<void()>*>(function));
        (*once)();
      };
  if (launch(stream, call, owned.get()) != 0) return false;
  auto* const released = owned.release();
  if (stays) Captures::All().Add(released);
  return true;
}

int CountCaptured() { return Captures::All().count(); }

void ReplayCaptured(int number) {
  const std::function<void()>* const call = Captures::All().Get(number);
  if (call != nullptr) (*call)();
}

void DeclareAccess(Stream stream, const void* start, size_t size, bool writes, const char* name) {
  using Touch = int (*)(Stream, const void*, uint64_t, int, const char*);
  static const auto touch = Find<Touch>("frugal_sim_touch");
  if (touch != nullptr && size > 0) (void)touch(stream, start, size, writes ? 1 : 0, name);
}

}  // namespace frugal::sim::nccl
