#include "simulated_gpu/exports/the_machine.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

namespace frugal::sim {
namespace {

// An exit status that neither Python nor a test runner uses.
constexpr int kOrderViolated = 3;
constexpr int kHostOverloaded = 7;

std::atomic<Machine*> the_machine{nullptr};

Configuration& MutableConfiguration() {
  static auto* configuration = new Configuration;
  return *configuration;
}

[[noreturn]] void Refuse(const std::string& problem) {
  std::fprintf(stderr, "frugal simulated GPU: %s\n", problem.c_str());
  std::fflush(stderr);
  _exit(2);
}

// A share of the node that the environment names; nullptr if it names none.
std::unique_ptr<ComputeNode> JoinNode() {
  const Configuration& configuration = TheConfiguration();
  if (configuration.node.empty()) return nullptr;
  std::string problem;
  const ComputeNode::Setup setup{configuration.gpus, configuration.memory, configuration.mapped_handles};
  std::unique_ptr<ComputeNode> node = ComputeNode::Open(configuration.node, setup, &problem);
  if (node == nullptr) Refuse(problem);
  return node;
}

// Read when the library is loaded, before the program has done anything that could be lost.
__attribute__((constructor)) void ReadEnvironment() {
  std::string problem;
  if (!Configuration::FromEnvironment(&MutableConfiguration(), &problem)) Refuse(problem);
  JoinNode();  // To be refused now, if it is: a share is taken by the machine.
}

// Late work has found memory that is not what it was: nothing that the process does from here on means anything.
void EndForFault(const std::string& fault) {
  std::fflush(nullptr);
  std::fprintf(stderr, "frugal simulated GPU: %s\n", fault.c_str());
  _exit(kOrderViolated);
}

// A real machine would not get any further, either.
void EndForOverload(const std::string& what) {
  std::fflush(nullptr);
  std::fprintf(stderr, "frugal simulated GPU: %s\n", what.c_str());
  _exit(kHostOverloaded);
}

// When the process exits: work that is left is checked.
void CheckTheRest() {
  Machine& machine = *the_machine.load();
  // In a child that was forked it is the parent's.
  if (machine.gpu_count() > 0) machine.late()->CheckTheRest();
}

// When the process exits: what the order checker has found.
void TellOrder() {
  Machine& machine = *the_machine.load();
  const OrderChecker& order = *machine.order();
  // In a child that was forked there are the parent's counts, which the parent tells.
  if (machine.gpu_count() == 0 || order.accesses() == 0) return;
  std::fflush(nullptr);
  std::fprintf(stderr, "frugal simulated GPU: the order of %llu accesses was checked, %llu violations\n%s",
               static_cast<unsigned long long>(order.accesses()), static_cast<unsigned long long>(order.violations()),
               order.Report().c_str());
  if (order.violations() > 0) _exit(kOrderViolated);
}

[[gnu::noinline]] Machine& MakeTheMachine() {
  static Machine& machine = *[] {
    const Configuration& configuration = TheConfiguration();
    const auto slots = Machine::VisibleSlots(std::getenv("CUDA_VISIBLE_DEVICES"), configuration.gpus);
    auto* made = new Machine(configuration, slots, JoinNode());
    if (configuration.order) std::atexit(TellOrder);
    if (configuration.late) std::atexit(CheckTheRest);  // Comes before the other.
    if (configuration.late && !configuration.order) made->late()->OnFault(EndForFault);
    made->unified_host().OnOverload(EndForOverload);
    pthread_atfork(nullptr, nullptr, [] { the_machine.load()->BecomeForkedChild(); });
    the_machine.store(made, std::memory_order_release);
    return made;
  }();
  return machine;
}

}  // namespace

// On the way of each call of CUDA's.
Machine& TheMachine() {
  if (Machine* made = the_machine.load(std::memory_order_acquire); made != nullptr) [[likely]]
    return *made;
  return MakeTheMachine();
}

Machine* TheMachineIfMade() { return the_machine; }

const Configuration& TheConfiguration() { return MutableConfiguration(); }

}  // namespace frugal::sim
