#include "cuda/simulated/machine_control.h"

#include <optional>
#include <utility>

namespace frugal::sim {

bool MachineControl::SetFaults(std::string_view plan) {
  std::optional<FaultPlan> parsed = FaultPlan::Parse(plan);
  if (!parsed) return false;
  machine_.calls().SetFaults(*std::move(parsed));
  return true;
}

void MachineControl::ResetCounters() {
  machine_.calls().ResetCounters();
  machine_.gpu(0).memory().ResetPeak();
}

uint64_t MachineControl::order_accesses() const {
  return machine_.order() == nullptr ? 0 : machine_.order()->accesses();
}

uint64_t MachineControl::order_violations() const {
  return machine_.order() == nullptr ? 0 : machine_.order()->violations();
}

std::string MachineControl::order_report() const {
  return machine_.order() == nullptr ? "" : machine_.order()->Report();
}

}  // namespace frugal::sim
