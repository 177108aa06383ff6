#include "simulated_gpu/exports/unsupported.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <iterator>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "simulated_gpu/exports/the_machine.h"
#include "simulated_gpu/machine/control.h"

namespace frugal::sim {
namespace {

// An exit status that neither Python nor a test runner uses.
constexpr int kUnsupportedCalled = 8;

// What programs can do without, taking the same memory.
constexpr std::string_view kHarmless[] = {
    "cuGetExportTable",  // CUPTI asks for it: PyTorch's profiler then goes on without what the GPU does.
};

// Those that were called, each once. Thread-safe.
class UnsupportedFunctions {
 public:
  void Note(std::string_view function) {
    std::lock_guard lock(mutex_);
    if (std::find(names_.begin(), names_.end(), function) == names_.end()) names_.emplace_back(function);
  }
  // With spaces between. What was returned stays as it is.
  const char* Names() {
    std::lock_guard lock(mutex_);
    std::string all;
    for (const std::string& name : names_) all += (all.empty() ? "" : " ") + name;
    if (texts_.empty() || texts_.back() != all) texts_.push_back(all);
    return texts_.back().c_str();
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> names_;
  std::deque<std::string> texts_;  // What Names() has returned.
};

UnsupportedFunctions& TheUnsupported() {
  static auto* functions = new UnsupportedFunctions;
  return *functions;
}

}  // namespace
}  // namespace frugal::sim

int frugal_sim_unsupported(const char* function) {
  const frugal::sim::Configuration& configuration = frugal::sim::TheConfiguration();
  if (configuration.verbose) std::fprintf(stderr, "frugal simulated GPU: %s is not simulated\n", function);
  const auto* harmless = std::find(std::begin(frugal::sim::kHarmless), std::end(frugal::sim::kHarmless), function);
  if (harmless == std::end(frugal::sim::kHarmless)) {
    frugal::sim::TheUnsupported().Note(function);
    if (configuration.unsupported_ends) {
      std::fflush(nullptr);
      std::fprintf(stderr, "frugal simulated GPU: the program called %s, which is not simulated\n", function);
      _exit(frugal::sim::kUnsupportedCalled);
    }
  }
  return static_cast<int>(frugal::sim::Error::kNotSupported);
}

const char* frugal_sim_unsupported_functions(void) { return frugal::sim::TheUnsupported().Names(); }
