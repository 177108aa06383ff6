#include "cuda/simulated/exports/the_machine.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace frugal::sim {
namespace {

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

}  // namespace

Machine& TheMachine() {
  static Machine& machine = *[] {
    const Configuration& configuration = TheConfiguration();
    const auto slots = Machine::VisibleSlots(std::getenv("CUDA_VISIBLE_DEVICES"), configuration.gpus);
    the_machine = new Machine(configuration, slots);
    pthread_atfork(nullptr, nullptr, [] { the_machine.load()->BecomeForkedChild(); });
    return the_machine.load();
  }();
  return machine;
}

Machine* TheMachineIfMade() { return the_machine; }

const Configuration& TheConfiguration() { return MutableConfiguration(); }

}  // namespace frugal::sim
