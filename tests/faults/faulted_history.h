// A history as a program of the shadow tests, played while the device fails. What must hold then is what must hold
// there after each operation, whatever fails: tests/shadow/shadow_run.h.

#pragma once

#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "simulated_gpu/machine/simulated_device.h"
#include "tests/histories/history.h"
#include "tests/shadow/shadow_run.h"

namespace frugal {

// What a device's memory is made of.
struct Memory {
  const char* name;
  const char* label;  // behind the name of a history
  bool is_movable;
  // Handles of several pages are made and moved even where memory is tight.
  bool has_large_handles;

  friend void PrintTo(const Memory& memory, std::ostream* stream) { *stream << memory.name; }
};
inline constexpr Memory kMemories[] = {{"pages", "", true, false},
                                       {"large_handles", " with large handles", true, true},
                                       {"segments", " in segments", false, false}};

// Between the history's events it trims, marks use, returns idle memory, has a stream captured and a block sleep, at
// fixed places; at its end it frees and trims all. The device has little more memory than the history fits into, so
// that all of it is wanted.
class FaultedHistory {
 public:
  FaultedHistory(const History& history, const Memory& memory, shadow::CheckLevel level);

  // With calls that fail by this plan (see FaultPlan) up to the operation of that number. What does not hold fails the
  // test.
  void Play(const std::string& faults, size_t faults_end = SIZE_MAX);

  size_t operation_count() const { return program_.operations.size(); }
  // Those of a kind that the latest play has made.
  uint64_t calls(sim::CallKind kind) const { return calls_.at(kind); }
  // What all plays have come to.
  const shadow::Tally& tally() const { return tally_; }
  // One line of it, for whoever reads the test's output.
  void Print(const std::string& what) const;

 private:
  // What does not hold; "" if all does.
  std::string Run(const std::string& faults, size_t faults_end);

  const std::string name_;
  const shadow::CheckLevel level_;
  shadow::Program program_;
  std::map<sim::CallKind, uint64_t> calls_;
  shadow::Tally tally_;
};

// The kinds of call that the policy makes.
const std::vector<sim::CallKind>& FailingKinds();
std::string NameOf(sim::CallKind kind);
// The ways in which calls fail: out of memory, otherwise, as a capture forbids it (which means "later" where the policy
// asks for it); and after the next call, for the first two.
const std::vector<std::string>& FailingErrors();

}  // namespace frugal
