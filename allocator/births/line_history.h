// What the lines of a program held at the ends of its epochs, and which of them leak, seen beside one another.

#pragma once

#include <vector>

#include "absl/types/span.h"
#include "allocator/births/birth_epochs.h"
#include "allocator/births/leak_verdict.h"

namespace frugal {

// Everything that one line keeps. The sites are another's, which outlives this.
struct LineHistory {
  std::vector<const SiteHistory*> sites;
  std::vector<EpochBoundary> boundaries;  // of all together

  void Add(const SiteHistory& site);
};

struct LineJudgement {
  LeakFinding leak;
  EpochBoundary latest;  // of what the finding is about
  SiteId site = {};      // the one that grows most
  Bytes largest_block;   // its size class
  double largest_growth = 0;
};

// A judgement for each line of one GPU, in their order. Sites are judged one by one, since a leak can drown in what
// else a line does; and the line as a whole, since its leak can be spread over many sizes.
//
// What other lines lose as one line grows is no leak: a pool is filled at one line and its entries are replaced at
// another, and a tensor is handed on. So a line is silent where it and another line, or all blocks of its size, or all
// memory of the GPU, or all that grows and all that falls, together stay as they are.
std::vector<LineJudgement> JudgeLines(absl::Span<const LineHistory> lines);

}  // namespace frugal
