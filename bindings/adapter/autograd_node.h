// What PyTorch's automatic differentiation is doing on the calling thread, for memory that no line of Python asks for.
// Looked up in the libraries that are loaded: a program without libtorch_cpu has none of it. Thread-safety: any thread.

#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <typeinfo>

#include "absl/types/span.h"
#include "bindings/tracking/python_stack.h"

namespace frugal {

// A node of the graph that is being evaluated, in a backward pass.
struct AutogradNode {
  const std::type_info* type;
  // Nodes are numbered by each thread of the forward passes, in the order in which they are made.
  uint64_t sequence;
};

// Looks for the functions below in the process, once; before, there are no nodes.
void FindAutograd();

// Whether they were found.
inline std::atomic<bool> autograd_is_known{false};
inline bool KnowsAutograd() { return autograd_is_known.load(std::memory_order_relaxed); }

// The one that the calling thread is evaluating.
std::optional<AutogradNode> CurrentAutogradNode();
// The number that the next node gets that the calling thread makes; 0: unknown.
uint64_t NextAutogradSequence();
// "MulBackward0". Of a function written in Python, "autograd.Function Swish", by the frames that run; the class is
// known where Python has qualified names, since 3.11.
std::string NodeName(const std::type_info& type, absl::Span<const PythonFrame> frames);

}  // namespace frugal
