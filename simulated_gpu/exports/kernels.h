// Which kernels a program has, by the names that its compiler gave them, and what the few that are simulated do.

#pragma once

#include <cstddef>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "simulated_gpu/machine/configuration.h"
#include "simulated_gpu/machine/graph.h"

namespace frugal::sim {

// Two of PyTorch's kernels are known: the one behind fill_() and torch.zeros(), and the one behind
// torch.cuda._sleep(). All others take their time and do nothing. Thread-safe.
class Kernels {
 public:
  // The one table of a process.
  static Kernels& Table();

  // `host` is the address by which the program launches the kernel, `name` its mangled name.
  void Register(const void* host, std::string_view name);
  // Which module, by any name for it, the kernel is in: for drivers that load modules as they are needed.
  void RegisterModule(const void* host, const void* module);
  // nullptr for a kernel that was not registered so.
  const void* ModuleOf(const void* host) const;

  // A launch of it on a machine of this configuration.
  Work MakeWork(const void* host, void** arguments, const Configuration& configuration) const;

 private:
  enum class Kind { kOther, kFill, kSleep };
  struct Kernel {
    Kind kind = Kind::kOther;
    size_t element_size = 0;  // Of what kFill fills.
  };

  static Kernel Classify(std::string_view name);

  mutable std::mutex mutex_;
  std::unordered_map<const void*, Kernel> kernels_;
  std::unordered_map<const void*, const void*> modules_;
};

}  // namespace frugal::sim
