#include "simulated_gpu/libraries/nccl_gpu.h"

#include <cstdlib>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

namespace frugal::sim::nccl {
namespace {

// cudaDeviceAttr
constexpr int kPciBus = 33;
constexpr int kMajor = 75;
constexpr int kMinor = 76;

int Attribute(int attribute, int gpu) {
  int value = 0;
  return Ask<"cudaDeviceGetAttribute">(&value, attribute, gpu) == 0 ? value : 0;
}

bool Is(const char* variable, std::string_view value) {
  const char* const text = std::getenv(variable);
  return text != nullptr && text == value;
}

using Function = std::function<void()>;

// What graphs call, in the order of its capture.
struct Captures {
  std::mutex mutex;
  std::vector<const Function*> calls;

  static Captures& All() {
    static auto* captures = new Captures;
    return *captures;
  }
};

void CallOnce(void* function) {
  const std::unique_ptr<Function> once(static_cast<Function*>(function));
  (*once)();
}

// Nobody says when a graph has run for the last time, so what one calls stays.
void CallAtEachReplay(void* function) { (*static_cast<Function*>(function))(); }

}  // namespace

int CurrentGpu() {
  int gpu = 0;
  (void)Ask<"cudaGetDevice">(&gpu);
  return gpu;
}

OnGpu::OnGpu(int gpu) : before_(CurrentGpu()), changes_(gpu != before_) {
  if (changes_) (void)Ask<"cudaSetDevice">(gpu);
}

OnGpu::~OnGpu() {
  if (changes_) (void)Ask<"cudaSetDevice">(before_);
}

uint64_t IdentityOf(int gpu) { return static_cast<uint64_t>(Attribute(kPciBus, gpu)); }

ComputeCapability ComputeCapabilityOf(int gpu) { return {Attribute(kMajor, gpu), Attribute(kMinor, gpu)}; }

bool Allocate(void** memory, size_t size) { return Ask<"cudaMalloc">(memory, size) == 0; }

bool Free(void* memory) { return Ask<"cudaFree">(memory) == 0; }

bool TakeForDriver(int gpu, int64_t bytes) { return Ask<"frugal_sim_take_for_driver">(gpu, bytes) != 0; }

bool IsCapturing(Stream stream) {
  int status = 0;
  return Ask<"cudaStreamIsCapturing">(stream, &status) == 0 && status != 0;
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
  if (WorkIsLate()) (void)Ask<"cudaDeviceSynchronize">();
}

bool CallOnStream(Stream stream, Function run) {
  const bool stays = IsCapturing(stream);
  auto owned = std::make_unique<Function>(std::move(run));
  void* const argument = owned.get();
  if (Ask<"cudaLaunchHostFunc">(stream, stays ? &CallAtEachReplay : &CallOnce, argument) != 0) return false;
  const Function* const released = owned.release();
  if (!stays) return true;
  Captures& captures = Captures::All();
  const std::lock_guard lock(captures.mutex);
  captures.calls.push_back(released);
  return true;
}

int CountCaptured() {
  Captures& captures = Captures::All();
  const std::lock_guard lock(captures.mutex);
  return static_cast<int>(captures.calls.size());
}

void ReplayCaptured(int number) {
  if (number < 0 || number >= CountCaptured()) return;
  Captures& captures = Captures::All();
  const Function* const call = [&] {
    const std::lock_guard lock(captures.mutex);
    return captures.calls[static_cast<size_t>(number)];
  }();
  (*call)();
}

void DeclareAccess(Stream stream, const void* start, size_t size, bool writes, const char* name) {
  if (size > 0) (void)Ask<"frugal_sim_touch">(stream, start, uint64_t{size}, writes ? 1 : 0, name);
}

}  // namespace frugal::sim::nccl
