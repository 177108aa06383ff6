// The constants of the policy: each with its unit, what it does, and the figure that decided it. `bench/compare`
// plays all histories with other values ("What each choice bought" in bench/README.md).

#pragma once

#include <cstdint>
#include <string_view>

namespace frugal {

// X(name, figure, what it is). Figures named below are means over all histories, recorded | generated ones: "4x",
// driver time on a GPU of four times the most live memory; "least", the smallest GPU over the most live memory.
#define FRUGAL_POLICY_OPTIONS(X)                                                                                   \
  /* At 16 4x is 0 | 15 % less, but .006 | .027 less of what is held is in use; at 64 4x is 7 | 37 % more. */      \
  X(waste_part, 24, "memory beyond the most ever in use may be this part of what is left, before remapping")       \
  /* At 4 4x is 2 % more | 1 % less. Without it a program that needs 7 GiB may hold 15 of 200. */                  \
  X(use_part, 2, "nor may it be more than this part of the most ever in use, or the largest handle")               \
  /* At 512 least is .0003 | .0001 more, at 2,048 .0004 | 0 less, and 4x 3 | 4 % more. */                          \
  X(piece_part, 1024, "a new handle is at most this part of what is left")                                         \
  /* At 16, with 8 MiB at most, 4x is 17 | 9 % less, but the worst of 200 programs with phases gets .971 of the */ \
  /* best other's last phase, at 8 .930, where it is .983 now. */                                                  \
  X(request_part, 32, "and of its request")                                                                        \
  /* At 1 4x is 27 | 22 % more; at 32 nothing is better on the GPUs of the histories. */                           \
  X(largest_piece, 8, "and has so many pages at most")                                                             \
  /* At 64 programs of 1 MiB tensors are out of memory first; at 1 survivors spoil the pages of larger ones. */    \
  X(borrow_part, 8, "free pieces of pages serve any size while less is left than this part of what is held")       \
  /* At 3 4x is 0 | 6 % more, at 16 0 | 1 % less. */                                                               \
  X(most_edges, 8, "edges of holes that are looked at for a place, those that need the fewest pages")              \
  /* At 1 one loop of random sizes in 45 never reaches a steady state; at 10 and 100 all do. */                    \
  X(unmap_weight, 10, "times the driver's unmap that a view in the way counts in the choice of a place")           \
  /* Without, 4x is 1 | 13 % more, least .0009 | .0016 more. */                                                    \
  X(homes, 1, "whether a handle that served a stitch goes back to where it was when it is free")                   \
  /* Without, 4x is 0 | 22 % more. */                                                                              \
  X(past_stitches, 1, "whether a request is stitched where one of its size was before, if that takes no call")

struct PolicyOptions {
#define FRUGAL_DECLARE_OPTION(name, figure, what) int64_t name = figure;
  FRUGAL_POLICY_OPTIONS(FRUGAL_DECLARE_OPTION)
#undef FRUGAL_DECLARE_OPTION
};

// The option of that name; null: there is none.
inline int64_t* FindOption(PolicyOptions& options, std::string_view wanted) {
#define FRUGAL_FIND_OPTION(name, figure, what) \
  if (wanted == #name) return &options.name;
  FRUGAL_POLICY_OPTIONS(FRUGAL_FIND_OPTION)
#undef FRUGAL_FIND_OPTION
  return nullptr;
}

}  // namespace frugal
