// What a test or a benchmark asks of a simulated machine in the same process, and no program could: as control.h for
// the simulated libraries.

#ifndef FRUGAL_CUDA_SIMULATED_MACHINE_CONTROL_H_
#define FRUGAL_CUDA_SIMULATED_MACHINE_CONTROL_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "cuda/simulated/machine.h"

namespace frugal::sim {

// The clock, the faults, the counters and what the checks found, of a machine with one GPU. A base class of what owns
// the machine. Thread-safe.
class MachineControl {
 public:
  MachineControl(const MachineControl&) = delete;
  MachineControl& operator=(const MachineControl&) = delete;

  Nanoseconds now() const { return machine_.clock().Now(); }
  // Time never goes back: an earlier time changes nothing.
  void AdvanceTo(Nanoseconds time) { machine_.clock().Set(time); }

  // As FRUGAL_SIM_FAULTS. False if the plan is not understood; nothing changes then.
  bool SetFaults(std::string_view plan);
  // Calls that have failed by the plan since it was set.
  uint64_t faults() const { return machine_.calls().faults(); }

  // Since the start or the last ResetCounters().
  uint64_t calls(CallKind kind) const { return machine_.calls().count(kind); }
  Nanoseconds driver_time() const { return machine_.calls().driver_time(); }
  void ResetCounters();

  Bytes used() const { return machine_.gpu(0).memory().used(); }
  Bytes peak() const { return machine_.gpu(0).memory().peak(); }

  // What the order checker has found; see there. 0, and "", without one.
  uint64_t order_accesses() const;
  uint64_t order_violations() const;
  std::string order_report() const;
  // Uses that found their memory gone or handed on when their stream's work was done; 0 where no work is late.
  uint64_t late_faults() const { return machine_.late() == nullptr ? 0 : machine_.late()->faults(); }

  Machine& machine() { return machine_; }

 protected:
  // Nothing is asked of the machine yet: its owner may construct it afterwards.
  explicit MachineControl(Machine& machine) : machine_(machine) {}
  ~MachineControl() = default;

 private:
  Machine& machine_;
};

}  // namespace frugal::sim

#endif  // FRUGAL_CUDA_SIMULATED_MACHINE_CONTROL_H_
