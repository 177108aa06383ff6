#include "cuda/simulated/libraries/nccl_error.h"

#include <mutex>

namespace frugal::sim::nccl {
namespace {

struct LastProblem {
  std::mutex mutex;
  // A program may keep the text, so it stays.
  const std::string* text = new std::string;

  static LastProblem& Only() {
    static auto* problem = new LastProblem;
    return *problem;
  }
};

}  // namespace

Result Explain(Result result, const std::string& problem) {
  LastProblem& last = LastProblem::Only();
  const std::lock_guard lock(last.mutex);
  last.text = new std::string(problem);
  return result;
}

const char* LastError() {
  LastProblem& last = LastProblem::Only();
  const std::lock_guard lock(last.mutex);
  return last.text->c_str();
}

}  // namespace frugal::sim::nccl
