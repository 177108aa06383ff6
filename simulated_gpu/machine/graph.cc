#include "simulated_gpu/machine/graph.h"

#include <algorithm>
#include <utility>

namespace frugal::sim {

Node* Graph::Add(Work work, std::vector<Node*> after) {
  std::lock_guard lock(mutex_);
  nodes_.push_back(std::make_unique<Node>(Node{std::move(work), std::move(after), this}));
  return nodes_.back().get();
}

std::vector<Node*> Graph::nodes() const {
  std::lock_guard lock(mutex_);
  std::vector<Node*> all;
  for (const auto& node : nodes_) all.push_back(node.get());
  return all;
}

std::vector<Node*> Graph::NodesAfter(const Node* node) const {
  std::vector<Node*> found;
  for (Node* other : nodes()) {
    if (std::find(other->after.begin(), other->after.end(), node) != other->after.end()) found.push_back(other);
  }
  return found;
}

std::vector<std::pair<const Node*, Nanoseconds>> Graph::Ends() const {
  std::unordered_map<const Node*, Nanoseconds> finished;
  std::vector<std::pair<const Node*, Nanoseconds>> ends;
  for (const Node* node : nodes()) {
    Nanoseconds start{0};
    for (const Node* before : node->after) start = std::max(start, finished[before]);
    finished[node] = start + node->work.duration;
    ends.emplace_back(node, finished[node]);
  }
  return ends;
}

Nanoseconds Graph::Duration() const {
  Nanoseconds last{0};
  for (const auto& [node, end] : Ends()) last = std::max(last, end);
  return last;
}

void Graph::Run() const {
  for (const Node* node : nodes()) {
    if (node->work.run) node->work.run();
  }
}

std::string Graph::ToDot() const {
  const std::vector<Node*> all = nodes();
  std::unordered_map<const Node*, std::string> names;
  std::string dot = "digraph dot {\nsubgraph cluster_1 {\nlabel=\"graph_1\"\n";
  for (const Node* node : all) {
    const std::string name = "\"graph_1_node_" + std::to_string(names.size()) + "\"";
    names[node] = name;
    dot += name + " [label=\"kind " + std::to_string(static_cast<int>(node->work.kind)) + "\"];\n";
    for (const Node* before : node->after) dot += names[before] + " -> " + name + ";\n";
  }
  return dot + "}\n}\n";
}

Graph* Graphs::Add(std::shared_ptr<Graph> graph) {
  std::lock_guard lock(mutex_);
  Graph* handle = graph.get();
  graphs_.emplace(handle, std::move(graph));
  return handle;
}

std::shared_ptr<Graph> Graphs::Find(Graph* graph) const {
  std::lock_guard lock(mutex_);
  const auto it = graphs_.find(graph);
  return it == graphs_.end() ? nullptr : it->second;
}

bool Graphs::Remove(Graph* graph) {
  std::lock_guard lock(mutex_);
  return graphs_.erase(graph) > 0;
}

ExecutableGraph* Graphs::AddExecutable(ExecutableGraph executable) {
  std::lock_guard lock(mutex_);
  auto owned = std::make_unique<ExecutableGraph>(std::move(executable));
  ExecutableGraph* handle = owned.get();
  executables_.emplace(handle, std::move(owned));
  return handle;
}

std::shared_ptr<const Graph> Graphs::FindExecutable(ExecutableGraph* executable) const {
  std::lock_guard lock(mutex_);
  const auto it = executables_.find(executable);
  return it == executables_.end() ? nullptr : it->second->graph;
}

bool Graphs::RemoveExecutable(ExecutableGraph* executable) {
  std::lock_guard lock(mutex_);
  return executables_.erase(executable) > 0;
}

}  // namespace frugal::sim
