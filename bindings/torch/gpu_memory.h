// All that we keep for one GPU, and the set of those GPUs.

#ifndef FRUGAL_BINDINGS_TORCH_GPU_MEMORY_H_
#define FRUGAL_BINDINGS_TORCH_GPU_MEMORY_H_

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "allocator/blocks/address_directory.h"
#include "allocator/device_allocator.h"
#include "bindings/settings/settings.h"
#include "bindings/threads/forked_child.h"
#include "bindings/threads/idle_releaser.h"
#include "bindings/torch/device_stats.h"
#include "bindings/torch/history.h"
#include "bindings/torch/native_share.h"
#include "bindings/torch/reclaimer.h"
#include "bindings/torch/routing.h"
#include "bindings/torch/torch_compat.h"
#include "bindings/tracking/leak_report.h"
#include "cuda/driver_device.h"

namespace frugal {

// One GPU's memory of ours. Thread-safety: any thread.
class GpuMemory {
 public:
  // Takes the device's memory from `device`; all must outlive the object.
  GpuMemory(c10::DeviceIndex ordinal, std::unique_ptr<DriverDevice> device, AddressDirectory& directory,
            caching::CUDAAllocator& native, Routing& routing, History& history);

  c10::DeviceIndex ordinal() const { return ordinal_; }
  DeviceAllocator& allocator() { return allocator_; }
  DriverDevice& device() { return *device_; }
  const DriverDevice& device() const { return *device_; }
  NativeShare& native_share() { return native_share_; }

  // Tells the allocator to report to history, from the first time that somebody listens.
  void AttachHistory() { allocator_.settings().SetObserver(&history_); }

  // The most that this process may hold on the GPU, native's memory included: the least of `fraction` of it, as
  // PyTorch has it, and of our own setting. An error, of the driver that is asked for the GPU's size, changes nothing.
  absl::Status SetMemoryFraction(double fraction);
  absl::Status SetMemoryLimit(const MemoryLimitSetting& limit);
  // As PyTorch has it; native is told less.
  double MemoryFraction();
  // What set the limit that holds, for people.
  const char* LimitName();
  void SetPolicy(const PolicySettings& policy);
  // Native is about to serve a request: a limit leaves it what we do not hold.
  void LeaveNativeTheRest();
  // Gives at least `enough` of our idle memory back to the driver, or all; returns how much that was. If the driver
  // fails, warns; the rest is still held.
  Bytes Trim(Bytes enough = kUnlimited);
  // Gives what nothing has used since the last call back to the driver, without waiting for a stream, and not while a
  // graph is perhaps being captured. Returns how much that was.
  absl::StatusOr<Bytes> ReleaseIdle(const Routing& routing);

  // What may still be taken when most of ours is in use; nullopt: the driver does not say how much memory there is.
  std::optional<Bytes> RoomAtPeak();

  // Ours and native's together.
  DeviceStats GetStats();
  // Ours alone, with the peaks of all phases.
  DeviceStats GetOwnStats();
  void ResetPeakStats();
  void ResetAccumulatedStats();
  // Memory changes hands between native and us: see PeakPhases.
  void BeginPhase();
  // We could not serve a request because of `reason`, which is not that memory is out. True at the first time since
  // our books are as they are: whole or broken.
  bool NoteRefusal(const absl::Status& reason) {
    return !(absl::IsDataLoss(reason) ? told_of_broken_books_ : told_of_driver_).exchange(true);
  }
  // One of us ran out of memory, but the request is served in another way: no error was seen.
  void ForgetOutOfMemory() { forgotten_ooms_.fetch_add(1, std::memory_order_relaxed); }

 private:
  absl::Status UpdateLimit() ABSL_EXCLUSIVE_LOCKS_REQUIRED(limit_mutex_);

  const c10::DeviceIndex ordinal_;
  NativeShare native_share_;
  std::unique_ptr<DriverDevice> device_;
  TorchReclaimer reclaimer_;
  DeviceHistory history_;
  DeviceAllocator allocator_;
  std::atomic<int64_t> forgotten_ooms_{0};
  std::atomic<bool> told_of_driver_{false};
  std::atomic<bool> told_of_broken_books_{false};

  absl::Mutex limit_mutex_;
  double fraction_ ABSL_GUARDED_BY(limit_mutex_) = 1.0;
  MemoryLimitSetting memory_limit_ ABSL_GUARDED_BY(limit_mutex_);
  bool fraction_holds_ ABSL_GUARDED_BY(limit_mutex_) = false;

  absl::Mutex phases_mutex_;
  PeakPhases phases_ ABSL_GUARDED_BY(phases_mutex_);
  PeakPhases own_phases_ ABSL_GUARDED_BY(phases_mutex_);
};

// The GPUs that memory has been asked for, each opened at its first request: opening one makes its context, which
// takes some of its memory. Never destroyed. Thread-safety: any thread.
class GpuSet {
 public:
  GpuSet(caching::CUDAAllocator& native, Routing& routing, History& history)
      : native_(native), routing_(routing), history_(history) {
    idle_releaser_.GuardProcess();
  }

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
  // Memory goes back to the driver after it was idle for this long.
  void SetIdleRelease(absl::Duration idle) { idle_releaser_.SetInterval(idle); }
  // A graph is perhaps about to be captured: memory is not being given back when this returns.
  void AwaitIdleRelease() { idle_releaser_.AwaitCall(); }
  // What the policy of every GPU, opened or not, is told.
  void SetPolicy(const PolicySettings& policy);
  // See GpuMemory::ReleaseIdle.
  absl::StatusOr<Bytes> ReleaseIdle();
  // History listens from now on: everybody reports to it.
  void AttachHistory();
  // What the parent had opened is its own: this set is empty again, and knows no pointer.
  void BecomeForkedChild();

 private:
  static constexpr size_t kMaxGpus = 128;  // more than c10::DeviceIndex can name

  void ReleaseIdleOrWarn();
  GpuMemory& Open(c10::DeviceIndex ordinal) ABSL_LOCKS_EXCLUDED(mutex_);
  // As the settings are now.
  std::unique_ptr<GpuMemory> Make(c10::DeviceIndex ordinal) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Publish(std::unique_ptr<GpuMemory> gpu) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  caching::CUDAAllocator& native_;
  Routing& routing_;
  History& history_;
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
};

}  // namespace frugal

#endif  // FRUGAL_BINDINGS_TORCH_GPU_MEMORY_H_
