// Pools that a graph may have been captured into: what it reads of them stays where it is.

#ifndef FRUGAL_ALLOCATOR_KEPT_POOLS_H_
#define FRUGAL_ALLOCATOR_KEPT_POOLS_H_

#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "allocator/backing/backing.h"
#include "allocator/blocks/arena_set.h"
#include "allocator/port/pool_id.h"
#include "allocator/port/units.h"

namespace frugal {

// A replay reads memory whose owner may be long gone, on a stream that nobody names. So what a pool has in use when a
// capture may begin, or what sleeps then and wakes later, serves nobody else, also when it is free again, until the
// pool is released and the host has waited for all work. Not thread-safe.
class KeptPools {
 public:
  // Both must outlive this.
  KeptPools(ArenaSet& arenas, Backing& backing) : arenas_(arenas), backing_(backing) {}

  // REQUIRES: the pool is asked for nothing from now on.
  void Keep(PoolId pool);
  // It has just woken.
  void KeepAwake(const Block& block);
  // Nobody holds the pool any more.
  void Release(PoolId pool);

  // Whether pools were released that only LetGo gives back.
  bool awaits_host() const { return !released_.empty(); }
  // The host has waited for all work since it was last asked whether some await it.
  void LetGo();

 private:
  using Range = std::pair<Address, Bytes>;

  void Add(const Block& block, std::vector<Range>& ranges);

  ArenaSet& arenas_;
  Backing& backing_;
  absl::flat_hash_map<PoolId, std::vector<Range>> kept_;
  std::vector<PoolId> released_;
};

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_KEPT_POOLS_H_
