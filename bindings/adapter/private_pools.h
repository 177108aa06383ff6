// PyTorch's private pools, those of CUDA graphs and of torch.cuda.MemPool: who made and holds them, and what serves
// them.

#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "allocator/births/allocation_site.h"
#include "allocator/port/memory_source.h"
#include "allocator/port/pool_id.h"
#include "allocator/port/pool_traits.h"
#include "allocator/port/units.h"
#include "bindings/adapter/torch_compat.h"
#include "bindings/threads/forked_child.h"

namespace frugal {

inline PoolId ToPoolId(MempoolId_t pool) { return {pool.first, pool.second}; }
inline MempoolId_t ToMempoolId(PoolId pool) { return {pool.first, pool.second}; }

// What a pool holds.
struct PoolFigures {
  c10::DeviceIndex gpu = 0;
  MempoolId_t pool = kDefaultPool;
  SiteId site = kNoSite;  // where it was made; kNoSite: not known
  bool captured = false;  // by a graph
  int holders = 0;        // graphs and objects; 0: it was released
  Bytes reserved;
  Bytes allocated;
  Bytes kept;  // free, and nobody else's as long as somebody holds the pool
  Bytes idle;  // in segments that hold nothing: what comes back once nobody holds the pool
};

// A pool of torch.cuda.MemPool gets movable memory like all others, until a graph may be captured into it. From then on
// it gets segments of cudaMalloc, as do all other pools: those of graphs, whose replays, checkpoints and peers rely on
// addresses that stay; those that are not to be split; and those whose memory is of functions of the program's. Graphs'
// get fixed memory in their place if the setting `pools` says so. What such a pool has is kept for it as long as
// somebody holds it (KeptPools).
//
// Thread-safety: any thread.
class PrivatePools {
 public:
  using Key = std::pair<c10::DeviceIndex, MempoolId_t>;

  // torch.cuda.MemPool holds the pool, or one more does. `source`: of its segments; null: the device.
  void NoteMade(const Key& key, std::shared_ptr<SegmentSource> source);
  // A graph, or a piece of the program, holds the pool, too, and asks for memory of it from now on.
  void NoteBegun(const Key& key);
  // One fewer holds it. Returns whether nobody does now.
  bool NoteReleased(const Key& key);
  // Its blocks are handed out whole.
  void NeverSplit(const Key& key);
  // Its memory stays where it is from now on. `captured`: for a graph.
  void Keep(const Key& key, bool captured);

  // Graphs' memory is fixed, of pools that are new from now on; else segments.
  void SetMapped(bool value);

  MemoryKind KindOf(const Key& key) const;
  PoolTraits TraitsOf(const Key& key) const;
  // Of all GPUs. `found`: what they hold. Forgets who made what is released and holds nothing.
  std::vector<PoolFigures> Figures(const std::map<Key, PoolFigures>& found);

  void BecomeForkedChild() { Renew(mutex_); }

 private:
  struct Pool {
    SiteId site = kNoSite;
    MemoryKind kind = MemoryKind::kSegment;
    bool captured = false;
    int holders = 0;
    PoolTraits traits;
  };

  // Of what is to stay where it is.
  MemoryKind KindOfKept() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return is_mapped_ ? MemoryKind::kFixed : MemoryKind::kSegment;
  }
  // One that nobody held is another one from now on.
  Pool& Hold(const Key& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  std::map<Key, Pool> pools_ ABSL_GUARDED_BY(mutex_);
  bool is_mapped_ ABSL_GUARDED_BY(mutex_) = false;
};

// Memory of an allocator of the program's, as torch.cuda.MemPool takes one.
std::shared_ptr<SegmentSource> SourceOf(std::shared_ptr<caching::CUDAAllocator> allocator);
// Memory of the runtime's cudaMalloc where somebody who was preloaded replaces it to pause what it serves
// (torch_memory_saver); else null.
std::shared_ptr<SegmentSource> PreloadedSource();

}  // namespace frugal
