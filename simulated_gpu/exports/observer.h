// Who is told of what a program gives the GPU: see frugal_sim_set_observer in control.h.

#pragma once

#include <cstddef>

namespace frugal::sim {

// As control.h numbers them.
enum class Observed { kHostCopy = 1, kWorkspace = 2 };

// Tells the observer, if there is one. No lock is to be held.
void Tell(Observed what, const void* start, size_t size);

}  // namespace frugal::sim
