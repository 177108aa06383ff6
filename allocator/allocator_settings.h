// How an allocator goes about its work, as its owner sets it.

#pragma once

#include "allocator/allocator_state.h"
#include "allocator/port/check.h"
#include "allocator/port/driver_costs.h"
#include "allocator/port/observer.h"
#include "allocator/port/policy_options.h"
#include "allocator/port/shared_limit.h"
#include "allocator/port/units.h"

namespace frugal {

// A facet of a DeviceAllocator: each setting may be changed at any time, from any thread.
class AllocatorSettings {
 public:
  explicit AllocatorSettings(AllocatorState& state) : state_(state) {}

  // The most physical memory to hold, which others may take from, too. The policy counts there what it holds, whether
  // there is a limit or not.
  SharedLimit& limit();

  // What calls of the driver take on this machine, where that was measured.
  void SetDriverCosts(const DriverCosts& costs);
  // Memory that is left to the driver, which takes some for the code of kernels, for their stacks and for its tables as
  // a program goes on, and fails launches where there is none. It is used last, before an error: whoever needs every
  // byte gets it.
  void SetDriverReserve(Bytes reserve);
  // Off: memory stays at its address from when it was mapped until it goes back to the device, for programs that have
  // others (a network card, a communication library) use it by an address that was registered once.
  void SetRemapping(bool on);
  // The constants of the policy, for those who measure what each is worth.
  void SetOptions(const PolicyOptions& options);

  // null: nobody listens. The observer must outlive its stay.
  void SetObserver(Observer* observer);
  // How much is checked in each call from now on; kDefaultCheckLevel at first.
  void SetCheckLevel(CheckLevel level);

 private:
  AllocatorState& state_;
};

}  // namespace frugal
