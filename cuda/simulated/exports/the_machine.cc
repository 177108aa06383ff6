#include "cuda/simulated/exports/the_machine.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace frugal::sim {
namespace {

Configuration& TheConfiguration() {
  static auto* configuration = new Configuration;
  return *configuration;
}

// Read when the library is loaded, before the program has done anything that could be lost.
__attribute__((constructor)) void ReadEnvironment() {
  std::string problem;
  if (Configuration::FromEnvironment(&TheConfiguration(), &problem)) return;
  std::fprintf(stderr, "frugal simulated GPU: %s\n", problem.c_str());
  std::fflush(stderr);
  _exit(2);
}

}  // namespace

Machine& TheMachine() {
  static Machine& machine = *[] {
    const Configuration& configuration = TheConfiguration();
    return new Machine(configuration, Machine::VisibleSlots(std::getenv("CUDA_VISIBLE_DEVICES"), configuration.gpus));
  }();
  return machine;
}

}  // namespace frugal::sim
