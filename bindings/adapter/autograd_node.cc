#include "bindings/adapter/autograd_node.h"

#include <c10/util/intrusive_ptr.h>
#include <cxxabi.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "bindings/adapter/torch_compat.h"
#include "bindings/adapter/torch_symbol.h"

namespace frugal {
namespace {

// The beginning of torch::autograd::Node, whose header would bring all of ATen's. Only nodes that PyTorch made are ever
// looked at. Source: torch/csrc/autograd/{function.h,node.h}.
#if FRUGAL_TORCH_MINOR >= 13
struct Node : c10::intrusive_ptr_target {
  uint64_t sequence;
};
using NodePointer = c10::intrusive_ptr<Node>;
#else
struct Node : std::enable_shared_from_this<Node> {
  Node() = delete;
  virtual ~Node() = default;
  uint64_t sequence;
};
using NodePointer = std::shared_ptr<Node>;
#endif

using CurrentNodeFunction = NodePointer (*)();
using SequenceFunction = uint64_t (*)();

std::atomic<CurrentNodeFunction> current_node{nullptr};
std::atomic<SequenceFunction> next_sequence{nullptr};

// The node of a torch.autograd.Function that is written in Python.
constexpr absl::string_view kNodeOfPython = "PyNode";

std::string FunctionName(absl::Span<const PythonFrame> frames) {
  std::string owner;
  for (const PythonFrame& frame : frames) {
    const CodeLine line = Describe(frame);
    // PyTorch's own call of the class's method.
    if (line.function == "apply" && absl::EndsWith(line.file, "/torch/autograd/function.py")) break;
    if (line.function != "backward" && line.function != "vjp") continue;
    // "Swish.backward", or "make.<locals>.Swish.backward". The outermost counts.
    owner = QualifiedName(frame);
    owner.resize(owner.size() - std::min(owner.size(), line.function.size() + 1));
    owner.erase(0, owner.rfind('.') + 1);
  }
  return owner.empty() || owner == "<locals>" ? "autograd.Function" : "autograd.Function " + owner;
}

}  // namespace

void FindAutograd() {
  current_node.store(reinterpret_cast<CurrentNodeFunction>(FindInTorch("_ZN5torch8autograd16get_current_nodeEv")));
  next_sequence.store(reinterpret_cast<SequenceFunction>(FindInTorch("_ZN2at15sequence_number4peekEv")));
  autograd_is_known.store(current_node.load() != nullptr || next_sequence.load() != nullptr);
}

std::optional<AutogradNode> CurrentAutogradNode() {
  const CurrentNodeFunction function = current_node.load(std::memory_order_relaxed);
  if (function == nullptr) return std::nullopt;
  const NodePointer node = function();
  if (!node) return std::nullopt;
  const Node& current = *node;
  return AutogradNode{&typeid(current), current.sequence};
}

uint64_t NextAutogradSequence() {
  const SequenceFunction function = next_sequence.load(std::memory_order_relaxed);
  return function == nullptr ? 0 : function();
}

std::string NodeName(const std::type_info& type, absl::Span<const PythonFrame> frames) {
  int status = 0;
  char* const demangled = abi::__cxa_demangle(type.name(), nullptr, nullptr, &status);
  const absl::Cleanup free_name = [demangled] { std::free(demangled); };
  const std::string name = status == 0 ? demangled : type.name();
  // Without namespaces, also those of template arguments.
  const size_t end = name.find('<');
  const size_t separator = name.rfind("::", end);
  const size_t start = separator == std::string::npos ? 0 : separator + 2;
  const std::string last = name.substr(start, end == std::string::npos ? end : end - start);
  return last == kNodeOfPython ? FunctionName(frames) : last;
}

}  // namespace frugal
