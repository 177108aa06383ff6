// Work for a stream, and graphs of it.

#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "simulated_gpu/machine/clock.h"
#include "simulated_gpu/machine/mapping_log.h"

namespace frugal::sim {

// Numbered as cudaGraphNodeType.
enum class WorkKind { kKernel = 0, kCopy = 1, kFill = 2, kHost = 3, kGraph = 4, kEmpty = 5, kEventRecord = 7 };

class Graph;

struct Work {
  WorkKind kind = WorkKind::kEmpty;
  // How long it keeps its stream busy.
  Nanoseconds duration{0};
  // What it does to memory; may be empty. Unless work is late it is done at once when the work is enqueued, busy stream
  // or not: only the time at which it counts as finished is simulated.
  std::function<void()> run;
  // For the order checker and for late work, and empty without them: what it is called, and what memory it touches by
  // itself or by the work of a graph.
  std::string name = {};
  std::vector<MemoryUse> uses = {};
  std::shared_ptr<const Graph> graph = nullptr;
  // Late work of this kind never runs at once, even where data moves at once.
  bool frees_memory = false;
};

struct Node {
  Work work;
  std::vector<Node*> after;  // What it depends on, all in the same graph.
  Graph* graph;
};

// Nodes are only ever added, and stay where they are while the graph lives. Thread-safe.
class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  Node* Add(Work work, std::vector<Node*> after);

  // In an order in which each node comes after those that it depends on.
  std::vector<Node*> nodes() const;
  // The nodes that depend on `node`.
  std::vector<Node*> NodesAfter(const Node* node) const;

  // The nodes with the time at which each ends, after the graph's beginning, in the order of nodes().
  std::vector<std::pair<const Node*, Nanoseconds>> Ends() const;
  // The longest path through the graph: branches run side by side.
  Nanoseconds Duration() const;
  void Run() const;
  // In the language of Graphviz.
  std::string ToDot() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

// A graph made ready to launch. It shares the nodes, so it may outlive the program's own handle to the graph.
struct ExecutableGraph {
  std::shared_ptr<const Graph> graph;
};

// The graphs that the program holds handles to. Thread-safe.
class Graphs {
 public:
  Graph* Add(std::shared_ptr<Graph> graph);
  // nullptr for a graph that is not, or no longer, here.
  std::shared_ptr<Graph> Find(Graph* graph) const;
  // False if it is not here.
  bool Remove(Graph* graph);

  ExecutableGraph* AddExecutable(ExecutableGraph executable);
  std::shared_ptr<const Graph> FindExecutable(ExecutableGraph* executable) const;
  bool RemoveExecutable(ExecutableGraph* executable);

 private:
  mutable std::mutex mutex_;
  std::unordered_map<Graph*, std::shared_ptr<Graph>> graphs_;
  std::unordered_map<ExecutableGraph*, std::unique_ptr<ExecutableGraph>> executables_;
};

}  // namespace frugal::sim
