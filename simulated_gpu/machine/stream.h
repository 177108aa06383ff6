// A stream of work in simulated time.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "simulated_gpu/machine/capture.h"
#include "simulated_gpu/machine/clock.h"
#include "simulated_gpu/machine/context.h"
#include "simulated_gpu/machine/graph.h"
#include "simulated_gpu/machine/vector_clock.h"

namespace frugal::sim {

// Guarded by Streams' lock, except what never changes.
struct Stream {
  enum class Kind {
    kBlocking,     // Ordered with its context's legacy stream.
    kNonBlocking,  // Ordered with no other stream.
    kLegacy,       // Its context's default stream: ordered with all blocking streams of that context.
  };

  const uint64_t id;
  const int gpu;
  Context* const context;
  const Kind kind;
  const int priority;

  Nanoseconds busy_until{0};
  std::shared_ptr<Capture> capture = nullptr;  // Not null: work goes into a graph.
  std::vector<Node*> tail = {};                // What the next node of that graph depends on.

  // With an order checker: its numbers there (its own, then one for each further branch of a graph), and what is done
  // before its next operation begins.
  std::vector<uint32_t> order_numbers = {};
  VectorClock order = {};
};

}  // namespace frugal::sim
