// The constants of the policy: each with its unit, what it does, and the figure that decided it. `bench/ablate` plays all
// histories with other values ("What each choice bought" in docs/performance.md).

#ifndef FRUGAL_ALLOCATOR_POLICY_OPTIONS_H_
#define FRUGAL_ALLOCATOR_POLICY_OPTIONS_H_

#include <cstdint>
#include <string_view>

namespace frugal {

// X(name, figure, what it is). Figures named below are the means of eleven recorded histories: "4x", driver time on a GPU of
// four times the most live memory, over that of expandable segments; "least", the smallest GPU over the most live memory.
#define FRUGAL_POLICY_OPTIONS(X)                                                                                     \
  /* At 16 one more history in five holds more than expandable segments do; at 64 4x is 1.22 for 1.09. */            \
  X(waste_part, 32, "memory beyond the most ever in use may be this part of what is left, before remapping")         \
  /* At 256 4x is .98 and least 1.0110; at 1024 1.39 and 1.0061. */                                                  \
  X(piece_part, 512, "a new handle is at most this part of what is left")                                            \
  X(largest_piece, 32, "pages of the largest handle")                                                                \
  /* Without it 4x is 1.09; least is the same. */                                                                    \
  X(ample_piece, 16, "pages that a new handle may have while most of the device is left, however small that is")     \
  X(ample_part, 64, "ample_piece is at most this part of what is left")                                              \
  X(ample_percent, 80, "of the device that must be left for ample_piece")                                            \
  /* At 4 4x is 1.25; at 16 .84, and fourteen histories for eight hold more than expandable segments do. */          \
  X(rounding, 8, "pages that a request's new memory is rounded up to, at most")                                      \
  /* Never: least is 1.0085 for 1.0077 of recorded ones and 1.0210 for 1.0185 of generated ones. */                  \
  X(exchange_percent, 12, "of the device, at most, that is left when large free handles are given up for small ones") \
  /* An unmap and a release each: .85 ms. */                                                                         \
  X(exchange_most, 16, "handles that one request gives up so")                                                       \
  /* More were tried on all histories: none got better. */                                                           \
  X(most_edges, 8, "edges of holes that are looked at for a place, those that need the fewest pages")                \
  /* A view that a loop needs again next iteration is unmapped and mapped in each. */                                \
  X(unmap_weight, 100, "times the driver's unmap that a view in the way counts in the choice of a place")            \
  /* Ten times as much changes next to nothing. */                                                                   \
  X(whole_page, 100'000, "nanoseconds that a whole free page counts that would have been spared")

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

#endif  // FRUGAL_ALLOCATOR_POLICY_OPTIONS_H_
