#include "cuda/simulated/exports/the_machine.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace frugal::sim {
namespace {

// An exit status that neither Python nor a test runner uses.
constexpr int kOrderViolated = 3;

std::atomic<Machine*> the_machine{nullptr};

Configuration& MutableConfiguration() {
  static auto* configuration = new Configuration;
  return *configuration;
}

// Read when the library is loaded, before the program has done anything that could be lost.
__attribute__((constructor)) void ReadEnvironment() {
  std::string problem;
  if (Configuration::FromEnvironment(&MutableConfiguration(), &problem)) return;
  std::fprintf(stderr, "frugal simulated GPU: %s\n", problem.c_str());
  std::fflush(stderr);
  _exit(2);
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

}  // namespace

Machine& TheMachine() {
  static Machine& machine = *[] {
    const Configuration& configuration = TheConfiguration();
    const auto slots = Machine::VisibleSlots(std::getenv("CUDA_VISIBLE_DEVICES"), configuration.gpus);
    the_machine = new Machine(configuration, slots);
    if (configuration.order) std::atexit(TellOrder);
    pthread_atfork(nullptr, nullptr, [] { the_machine.load()->BecomeForkedChild(); });
    return the_machine.load();
  }();
  return machine;
}

Machine* TheMachineIfMade() { return the_machine; }

const Configuration& TheConfiguration() { return MutableConfiguration(); }

}  // namespace frugal::sim
