// The GPUs that we hold memory of.

#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "allocator/blocks/address_directory.h"
#include "bindings/adapter/gpu_memory.h"
#include "bindings/adapter/history.h"
#include "bindings/adapter/routing.h"
#include "bindings/adapter/torch_compat.h"
#include "bindings/settings/settings.h"
#include "bindings/threads/idle_releaser.h"
#include "bindings/tracking/leak_report.h"

namespace frugal {

// The GPUs that memory has been asked for, each opened at its first request: opening one makes its context, which
// takes some of its memory. Never destroyed. Thread-safety: any thread.
class GpuSet {
 public:
  // All must outlive the object.
  GpuSet(caching::CUDAAllocator& native, Routing& routing, History& history)
      : native_(native), routing_(routing), history_(history) {
    idle_releaser_.GuardProcess();
  }

  // Called after each GPU that is opened. Set before the first.
  void SetWhenOpened(std::function<void()> when_opened) { when_opened_ = std::move(when_opened); }

  // The GPU, opened if it was not. Throws c10::Error if the driver cannot.
  GpuMemory& Get(c10::DeviceIndex ordinal) {
    GpuMemory* gpu = Find(ordinal);
    return C10_LIKELY(gpu != nullptr) ? *gpu : Open(ordinal);
  }
  // null: not opened, or no such GPU.
  GpuMemory* Find(c10::DeviceIndex ordinal) const {
    if (C10_UNLIKELY(static_cast<size_t>(ordinal) >= gpus_.size())) return nullptr;
    return gpus_[static_cast<size_t>(ordinal)].load(std::memory_order_acquire);
  }
  // Whose memory `pointer` lies in; null: not ours.
  GpuMemory* OwnerOf(const void* pointer) const {
    DeviceAllocator* const owner = directory_.Find(Address(pointer));
    if (C10_UNLIKELY(owner == nullptr)) return nullptr;
    // Few GPUs, and most often one.
    const int count = count_.load(std::memory_order_acquire);
    for (int i = 0; i < count; ++i) {
      GpuMemory* gpu = gpus_[static_cast<size_t>(order_[static_cast<size_t>(i)])].load(std::memory_order_relaxed);
      if (C10_LIKELY(&gpu->allocator() == owner)) return gpu;
    }
    return nullptr;
  }

  // Whether allocations are recorded by site from now on.
  void SetTracking(bool value);
  // Of every GPU, opened or not.
  void SetCheckLevel(CheckLevel level);
  // What leaks, of all.
  LeakReport MakeLeakReport() const;

  // f(GpuMemory&) for each that is open.
  template <typename F>
  void ForEach(F&& f) const {
    const int count = count_.load(std::memory_order_acquire);
    for (int i = 0; i < count; ++i) f(*gpus_[static_cast<size_t>(order_[static_cast<size_t>(i)])].load());
  }

  // `device` may reach memory of `accessed` from now on.
  void AllowPeer(c10::DeviceIndex device, c10::DeviceIndex accessed);
  // The limit of every GPU, opened or not. Throws c10::Error, with every limit as it was, if the driver
  // cannot be asked for a GPU's size.
  void SetMemoryLimit(const MemoryLimitSetting& limit);
  // Memory goes back to the driver after it was idle for this long. Warns where the system gives no thread for that.
  void SetIdleRelease(absl::Duration idle) { WarnUnlessStarted(idle_releaser_.SetInterval(idle)); }
  // A graph is perhaps about to be captured: memory is not being given back when this returns.
  void AwaitIdleRelease() { idle_releaser_.AwaitCall(); }
  // What the policy of every GPU, opened or not, is told.
  void SetPolicy(const PolicySettings& policy);
  // A library is about to take memory of the driver, as NCCL does for a communicator: gives idle memory of ours back
  // until a 16th of each GPU is free. Waits a second at most for work that uses it. If the driver fails, nothing is
  // said: whoever takes the memory will.
  void MakeRoom() {
    ForEach([this](GpuMemory& gpu) { MakeRoom(gpu); });
  }
  // GpuMemory::GiveBack of one of these, not while AwaitIdleRelease returns or the process forks.
  GpuMemory::Given GiveBack(GpuMemory& gpu, Bytes enough);
  // See GpuMemory::ReleaseIdle and GiveBackReleased.
  absl::StatusOr<Bytes> ReleaseIdle();
  // Native has recorded a snapshot of `pool`, in which our memory is still to be counted.
  void NoteSnapshot(MempoolId_t pool);
  // History listens from now on: everybody reports to it.
  void AttachHistory();
  // What the parent had opened is its own: this set is empty again, and knows no pointer.
  void BecomeForkedChild();

 private:
  static constexpr size_t kMaxGpus = 128;  // more than c10::DeviceIndex can name

  void MakeRoom(GpuMemory& gpu);
  void ReleaseIdleOrWarn();
  void WarnUnlessStarted(const absl::Status& status);
  GpuMemory& Open(c10::DeviceIndex ordinal) ABSL_LOCKS_EXCLUDED(mutex_);
  // As the settings are now.
  std::unique_ptr<GpuMemory> Make(c10::DeviceIndex ordinal) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // An error: it is there, but there is no thread that gives its idle memory back.
  absl::Status Publish(std::unique_ptr<GpuMemory> gpu) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  caching::CUDAAllocator& native_;
  Routing& routing_;
  History& history_;
  std::function<void()> when_opened_ = [] {};
  AddressDirectory directory_;
  std::array<std::atomic<GpuMemory*>, kMaxGpus> gpus_ = {};
  // The ordinals of the first count_ that were opened, in that order.
  std::array<c10::DeviceIndex, kMaxGpus> order_ = {};
  std::atomic<int> count_{0};

  absl::Mutex mutex_;
  // Device, and the one that it may access.
  std::vector<std::pair<c10::DeviceIndex, c10::DeviceIndex>> peers_ ABSL_GUARDED_BY(mutex_);
  MemoryLimitSetting memory_limit_ ABSL_GUARDED_BY(mutex_);
  CheckLevel check_level_ ABSL_GUARDED_BY(mutex_) = kDefaultCheckLevel;
  PolicySettings policy_ ABSL_GUARDED_BY(mutex_);

  IdleReleaser idle_releaser_{[this] { ReleaseIdleOrWarn(); }};
  bool idle_release_fails_ = false;  // the releaser's thread's
  std::atomic<bool> told_of_no_thread_{false};
};

}  // namespace frugal
