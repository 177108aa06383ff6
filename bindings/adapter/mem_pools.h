// The pools of torch.cuda.MemPool whose memory is ours.

#ifndef FRUGAL_BINDINGS_ADAPTER_MEM_POOLS_H_
#define FRUGAL_BINDINGS_ADAPTER_MEM_POOLS_H_

#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "allocator/port/pool_id.h"
#include "bindings/adapter/torch_compat.h"
#include "bindings/threads/forked_child.h"

namespace frugal {

inline PoolId ToPoolId(MempoolId_t pool) { return {pool.first, pool.second}; }
inline MempoolId_t ToMempoolId(PoolId pool) { return {pool.first, pool.second}; }

// A pool is known from when torch.cuda.MemPool makes it, without an allocator of its own, until nobody holds it. It is
// ours until a graph may be captured into it, and native's from then on, for ever. Native is told of it all the time,
// but asserts if it is asked about one that nobody holds. Thread-safety: any thread.
class MemPools {
 public:
  enum class Owner { kNative, kOurs };

  // It was made, or somebody else holds it, too. Hold: if it is known.
  void Add(MempoolId_t pool);
  void Hold(MempoolId_t pool);
  // One holds it no longer. Returns whether it was known and nobody does now.
  bool LetGo(MempoolId_t pool);
  // Native's, of which this is not known to be one.
  Owner OwnerOf(MempoolId_t pool) const;
  // From now on native's. Returns whether it was ours until now.
  bool GiveToNative(MempoolId_t pool);

  void BecomeForkedChild() { Renew(mutex_); }

 private:
  struct Pool {
    Owner owner = Owner::kOurs;
    int holders = 0;
  };

  mutable absl::Mutex mutex_;
  std::map<MempoolId_t, Pool> pools_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace frugal

#endif  // FRUGAL_BINDINGS_ADAPTER_MEM_POOLS_H_
