// All that we keep for one GPU.

#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allocator/blocks/address_directory.h"
#include "allocator/device_allocator.h"
#include "bindings/adapter/gpu_limit.h"
#include "bindings/adapter/gpu_statistics.h"
#include "bindings/adapter/history.h"
#include "bindings/adapter/native_share.h"
#include "bindings/adapter/reclaimer.h"
#include "bindings/adapter/routing.h"
#include "bindings/adapter/torch_compat.h"
#include "bindings/settings/settings.h"
#include "bindings/tracking/out_of_memory_verdict.h"
#include "cuda/driver_device.h"
#include "cuda/host_copies.h"

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
  GpuLimit& limit() { return limit_; }
  GpuStatistics& statistics() { return statistics_; }
  HostCopies& host_copies() { return device_->host_copies(); }
  // The verdict on the latest out-of-memory error, and what is thought of it since; nullopt: there was none.
  std::optional<OutOfMemoryVerdict> last_out_of_memory() const {
    const int verdict = last_out_of_memory_.load(std::memory_order_relaxed);
    return verdict < 0 ? std::nullopt : std::optional(static_cast<OutOfMemoryVerdict>(verdict));
  }
  void SetLastOutOfMemory(OutOfMemoryVerdict verdict) {
    last_out_of_memory_.store(static_cast<int>(verdict), std::memory_order_relaxed);
  }

  // Tells the allocator to report to history, from the first time that somebody listens.
  void AttachHistory() { allocator_.settings().SetObserver(&history_); }

  void SetPolicy(const PolicySettings& policy);
  // See Reclaimer::GiveBackReleased.
  void GiveBackReleased() { static_cast<void>(reclaimer_.GiveBackReleased()); }
  // Gives at least `enough` of our idle memory back to the driver, or all; returns how much that was. If the driver
  // fails, warns; the rest is still held. `only`: of that pool alone.
  Bytes Trim(Bytes enough = kUnlimited, OnlyPool only = std::nullopt);
  // Gives what nothing has used since the last call back to the driver, without waiting for a stream, and not while a
  // graph is perhaps being captured. Returns how much that was.
  absl::StatusOr<Bytes> ReleaseIdle(const Routing& routing);
  // Gives up to `enough` of what all streams have passed back to the driver, for others. Waits for no stream,
  // and does nothing while a graph is perhaps being captured, nor on a GPU without virtual memory, where the driver's
  // calls may wait for its work.
  struct Given {
    Bytes bytes;
    bool is_all = true;  // else a stream has yet to pass
  };
  Given GiveBack(Bytes enough, const Routing& routing);
  // Asks all for memory that they hold on this GPU without using it. False: there was none.
  bool Reclaim(Bytes wanted) {
    const bool released = reclaimer_.ReleaseCaches();
    return reclaimer_.AskNeighbours(wanted) || released;
  }
  // See Reclaimer::AskNeighbours.
  bool AskNeighbours(Bytes wanted) { return reclaimer_.AskNeighbours(wanted); }

  // What lacks its physical memory, since it sleeps. Looks at every block.
  Bytes Asleep();
  // What may still be taken when most of ours is in use; nullopt: the driver does not say how much memory there is.
  std::optional<Bytes> RoomAtPeak();

  // We could not serve a request because of `reason`, which is not that memory is out. True at the first time while
  // our accounting is as it is: whole, or found wrong (Health() of the allocator).
  bool NoteRefusal(const absl::Status& reason) {
    return !(absl::IsDataLoss(reason) ? told_of_wrong_accounting_ : told_of_driver_).exchange(true);
  }

 private:
  const c10::DeviceIndex ordinal_;
  std::unique_ptr<DriverDevice> device_;
  TorchReclaimer reclaimer_;
  DeviceHistory history_;
  DeviceAllocator allocator_;
  NativeShare native_share_;
  GpuLimit limit_;
  GpuStatistics statistics_;
  std::atomic<int> last_out_of_memory_{-1};
  std::atomic<bool> told_of_driver_{false};
  std::atomic<bool> told_of_wrong_accounting_{false};
};

}  // namespace frugal
