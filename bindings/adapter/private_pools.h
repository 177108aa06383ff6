// PyTorch's private pools, those of CUDA graphs and of torch.cuda.MemPool: who made them, what they hold, and the
// return of those that nobody holds any more.

#ifndef FRUGAL_BINDINGS_ADAPTER_PRIVATE_POOLS_H_
#define FRUGAL_BINDINGS_ADAPTER_PRIVATE_POOLS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "allocator/births/allocation_site.h"
#include "allocator/device_allocator.h"
#include "allocator/port/units.h"
#include "bindings/adapter/routing.h"
#include "bindings/adapter/torch_compat.h"

namespace frugal {

// What a pool holds.
struct PoolFigures {
  c10::DeviceIndex gpu = 0;
  MempoolId_t pool = kDefaultPool;
  SiteId site = kNoSite;  // where it was made; kNoSite: not known
  bool captured = false;  // by a graph
  int holders = 0;        // graphs and objects; 0: it was released
  Bytes reserved;
  Bytes allocated;
  Bytes native_reserved;  // of these, by native
  Bytes native_allocated;
  Bytes idle;  // in segments that hold nothing: what comes back once nobody holds the pool
};

// Native only notes that nobody holds a pool, and frees what is empty of it when memory is out, or at empty_cache().
// Here that is done by the first call that finds the GPU without work: nobody waits for it. Two kinds of pools are left
// to native: those of which a graph may still read something, since it was captured while they were there (the
// workspace that cuBLAS keeps for a stream, and tensors that the program forgot), and those whose memory is a user's
// own allocator's, which may be Python.
//
// Thread-safety: any thread. While native gives back, no pool is opened.
class PrivatePools {
 public:
  PrivatePools(caching::CUDAAllocator& native, Routing& routing) : native_(native), routing_(routing) {}

  // Somebody holds the pool, or one more, as native knows by now.
  void NoteHeld(c10::DeviceIndex device, MempoolId_t pool, bool has_own_allocator = false);
  // And its memory is being asked for from now on, perhaps for a graph.
  void NoteBegun(c10::DeviceIndex device, MempoolId_t pool, bool may_capture);
  // One fewer holds it.
  void NoteReleased(c10::DeviceIndex device, MempoolId_t pool);
  // Native has freed something. Takes no lock.
  void NoteFreed() {
    if (released_.load(std::memory_order_relaxed) > 0) changes_.fetch_add(1, std::memory_order_relaxed);
  }

  // Whether GiveBack has something to look at: one load while there is nothing.
  bool HasReleased(c10::DeviceIndex device) const {
    if (released_.load(std::memory_order_relaxed) == 0) return false;
    return waiting_[static_cast<size_t>(device)].settled.load(std::memory_order_relaxed) !=
           changes_.load(std::memory_order_relaxed);
  }
  // Gives back what is empty of released pools if the GPU has nothing to do, which may be only at a later call, and no
  // pool is open; true if some was. `allocator` knows the streams, and none of its locks may be held. Never throws.
  bool GiveBack(c10::DeviceIndex device, DeviceAllocator& allocator) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  // emptyCache(pool) of native's, which waits for the GPU; where a pool is open, GiveBack does it afterwards.
  void Empty(MempoolId_t pool);

  using Key = std::pair<c10::DeviceIndex, MempoolId_t>;
  // Of all GPUs. `found`: the bytes that are ours.
  std::vector<PoolFigures> Figures(const std::map<Key, PoolFigures>& found) const;
  // Adds what native has. Takes a snapshot of it, which it records.
  void AddNatives(std::map<Key, PoolFigures>& found) const;

  void BecomeForkedChild();

 private:
  // Moments are numbered as pools are made and graphs captured.
  struct Pool {
    SiteId site = kNoSite;
    int64_t made = 0;
    int64_t captured = 0;  // the latest time; 0: never
    bool has_own_allocator = false;
    bool is_released = false;
  };
  // Of a GPU.
  struct Waiting {
    std::atomic<uint64_t> settled{0};  // changes_ when all was given back that could be
    absl::Mutex at_work;               // held by who gives back; others go on
  };

  std::vector<caching_types::SegmentInfo> SegmentsOf(const Key& key) const;
  // nullopt: not known, or left to native.
  std::optional<c10::DeviceIndex> DeviceOf(MempoolId_t pool) const ABSL_LOCKS_EXCLUDED(mutex_);
  // No graph that is left can have been captured with something of it.
  bool IsUnread(const Key& key, const Pool& pool) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<Key> Returnable(c10::DeviceIndex device) const ABSL_LOCKS_EXCLUDED(mutex_);
  bool GiveBackEmpty(c10::DeviceIndex device) ABSL_LOCKS_EXCLUDED(mutex_);
  void ForgetIfGone(const Key& key) ABSL_LOCKS_EXCLUDED(mutex_);

  caching::CUDAAllocator& native_;
  Routing& routing_;
  std::atomic<int> released_{0};  // pools
  std::atomic<uint64_t> changes_{0};
  std::array<Waiting, C10_COMPILE_TIME_MAX_GPUS> waiting_;
  mutable absl::Mutex mutex_;
  std::map<Key, Pool> pools_ ABSL_GUARDED_BY(mutex_);
  int64_t now_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace frugal

#endif  // FRUGAL_BINDINGS_ADAPTER_PRIVATE_POOLS_H_
