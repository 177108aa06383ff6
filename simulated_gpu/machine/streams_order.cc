// The part of Streams that tells the order checker what comes after what.

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "simulated_gpu/machine/streams.h"

namespace frugal::sim {

void Streams::NameForOrder(const Stream& stream, std::string name) {
  if (state_.order_checker != nullptr)
    state_.order_checker->RenameStream(stream.order_numbers.front(), std::move(name));
}

void Streams::EnterOrder(Stream& stream, const Work& work) {
  if (state_.order_checker == nullptr || (work.uses.empty() && work.graph == nullptr)) return;
  stream.order = state_.OrderReached(stream);
  if (!work.uses.empty()) state_.order_checker->Enter(stream.order_numbers.front(), stream.order, work.name, work.uses);
  size_t branches = 0;
  if (work.graph != nullptr) stream.order = EnterGraphOrder(stream, *work.graph, stream.order, branches);
}

// Each node goes on in the branch of one that it depends on, if no other node does, and else begins a branch, which
// counts as a stream of its own. Launches on one stream come one after the other, so that the next may use the same.
// Returns what is done when the graph is.
VectorClock Streams::EnterGraphOrder(Stream& stream, const Graph& graph, const VectorClock& before, size_t& branches) {
  struct Reached {
    size_t branch;
    VectorClock order;
    bool has_next = false;
  };
  std::unordered_map<const Node*, Reached> reached;
  VectorClock after = before;
  for (const Node* node : graph.nodes()) {
    std::optional<size_t> branch;
    VectorClock order = before;
    for (const Node* earlier : node->after) {
      Reached& end = reached.at(earlier);
      order.Join(end.order);
      if (branch.has_value() || end.has_next) continue;
      branch = end.branch;
      end.has_next = true;
    }
    if (!branch.has_value()) branch = branches++;
    const Work& work = node->work;
    if (!work.uses.empty()) state_.order_checker->Enter(OrderNumber(stream, *branch), order, work.name, work.uses);
    if (work.graph != nullptr) order = EnterGraphOrder(stream, *work.graph, order, branches);
    after.Join(order);
    reached.emplace(node, Reached{*branch, std::move(order)});
  }
  return after;
}

uint32_t Streams::OrderNumber(Stream& stream, size_t branch) {
  while (stream.order_numbers.size() <= branch) {
    const std::string name =
        "branch " + std::to_string(stream.order_numbers.size()) + " of stream " + std::to_string(stream.id);
    stream.order_numbers.push_back(state_.order_checker->AddStream(name));
  }
  return stream.order_numbers[branch];
}

}  // namespace frugal::sim
