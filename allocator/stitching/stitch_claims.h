// What a stitch relies on, set aside while the driver carries it out.

#pragma once

#include "absl/container/inlined_vector.h"
#include "allocator/blocks/arena.h"
#include "allocator/blocks/block.h"
#include "allocator/blocks/extent.h"
#include "allocator/stitching/stitch_plan.h"

namespace frugal {

// The accounting lock is let go of meanwhile, so blocks come and go. Nobody gets what is claimed: the pages that the
// stitch takes; the free blocks beside its target, which are part of what was asked for; the target, which no guest
// goes home to. REQUIRES: Vacate or Undo is called once, unless an invariant breaks. Not thread-safe.
class StitchClaims {
 public:
  // `plan` is `arena`'s and was made since the lock was last let go of. All must outlive this.
  StitchClaims(Arena& arena, const StitchPlan& plan);
  StitchClaims(const StitchClaims&) = delete;
  StitchClaims& operator=(const StitchClaims&) = delete;

  // The handles are at the target now: where they were there is a hole, and the target can be filled.
  void Vacate();
  // All is free again, and the target a hole like any other.
  void Undo();

 private:
  static void LetGo(const absl::InlinedVector<Block*, 2>& blocks);

  Arena& arena_;
  Extent& filled_;  // where the target is
  absl::InlinedVector<Block*, 2> donations_;
  absl::InlinedVector<Block*, 2> edges_;
};

}  // namespace frugal
