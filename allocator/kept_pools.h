// Pools that a graph may have been captured into: what it reads of them stays where it is.

#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "allocator/backing/backing.h"
#include "allocator/blocks/arena_set.h"
#include "allocator/port/pool_id.h"
#include "allocator/port/units.h"

namespace frugal {

// A replay reads memory whose owner may be long gone, on a stream that nobody names. So the segments of such a pool,
// and its handles below what was handed out since it is kept, or was in use then, serve nobody else, also when they are
// free, until the pool is released and the host has waited for all work. Not thread-safe.
//
// A graph may read another's pool: cuBLAS keeps the workspace that it took for a stream during the first capture. So
// what others only would like to have stays while a graph lives that was captured later.
class KeptPools {
 public:
  // Both must outlive this.
  KeptPools(ArenaSet& arenas, Backing& backing) : arenas_(arenas), backing_(backing) {}

  // A capture into the pool may begin, or (`captured` false) it is to be as if. REQUIRES: from now on it is not asked
  // for movable memory.
  void Keep(PoolId pool, bool captured);
  // What is mapped for the pool sleeps, as a whole, by the first tag that is not 0: else it might not wake by the tag
  // that it fell asleep by. REQUIRES: the pool is kept.
  void SetTag(PoolId pool, uint8_t tag) {
    if (uint8_t& first = pools_[pool].tag; first == 0) first = tag;
  }
  // These, and the pools that a graph was captured into since one of these is kept, which it may read.
  std::vector<PoolId> WithReaders(const absl::flat_hash_set<PoolId>& pools) const;
  // nullopt: none of a kept pool whose memory is mapped.
  std::optional<uint8_t> TagOf(const Arena& arena) const;
  // It has just woken.
  void KeepAwake(const Block& block);
  // Nobody holds the pool any more.
  void Release(PoolId pool);

  // Which of the released pools: all, or those that no graph is left to read.
  enum class Which { kAll, kUnread };
  bool HasReleased(Which which) const;
  // HasReleased(kUnread), for any thread: one load.
  bool has_unread() const { return has_unread_.load(std::memory_order_relaxed); }
  // The host has waited for all work since it was last asked whether there are some. Returns them.
  std::vector<PoolId> LetGo(Which which, const OnlyPool& only = std::nullopt);
  // Whether something slept of what it has let go of, until that is settled; see Sleep.
  bool has_sleepers() const { return has_sleepers_; }
  void ForgetSleepers() { has_sleepers_ = false; }

 private:
  // In the order of captures, from 1.
  struct Pool {
    int64_t kept_since = 0;
    int64_t last_capture = 0;  // 0: never
    bool is_released = false;
    uint8_t tag = 0;
  };

  void Fix(const Block& block);
  // No graph reads what the pool has.
  void Unfix(PoolId pool);
  bool IsMeant(const Pool& pool, Which which) const;
  // To be called after each change.
  void Changed() { has_unread_.store(HasReleased(Which::kUnread), std::memory_order_relaxed); }

  ArenaSet& arenas_;
  Backing& backing_;
  std::map<PoolId, Pool> pools_;
  int64_t captures_ = 0;
  std::atomic<bool> has_unread_{false};
  bool has_sleepers_ = false;
};

}  // namespace frugal
