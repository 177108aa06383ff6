// Which calls are to fail, and how.
//
// A plan is a list like "create@3=out_of_memory,map@1+=invalid_value": call n of a kind, counted from 1 from the
// moment that the plan is set, fails with that error; "n+" means that call and all after it. "map@2=late_unknown":
// call n itself is made, and the next call of any kind fails instead, as CUDA reports what goes wrong in work that was
// only enqueued. "driver.map@2=unknown": of the calls that are made by functions of the driver (cu...), the second;
// those of the runtime (cuda...) are neither counted nor failed, late or not. "unmap@2=partial_unknown": an unmap of
// several views unmaps the first half of them before it fails.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "simulated_gpu/machine/call_kind.h"
#include "simulated_gpu/machine/error.h"

namespace frugal::sim {

// Not thread-safe: Calls guards it.
class FaultPlan {
 public:
  // No call fails.
  FaultPlan() = default;

  // nullopt if `text` is not a plan; "" is the plan in which nothing fails.
  static std::optional<FaultPlan> Parse(std::string_view text);

  // The error that the next call of `kind` is to have, kSuccess for none; that call is then over, but that it does half
  // of its work first if `partial` is true afterwards.
  Error Next(CallKind kind, bool in_driver = false, bool* partial = nullptr);
  // Whether no call will fail by it.
  bool empty() const { return rules_.empty() && pending_ == Error::kSuccess; }
  // Faults that calls have had since the plan was set.
  uint64_t faults() const { return faults_; }

 private:
  struct Rule {
    CallKind kind;
    bool only_in_driver;
    uint64_t call;
    bool and_all_after;
    // The call after it fails.
    bool late;
    // It does half of its work.
    bool partial;
    Error error;
  };

  static std::optional<Rule> ParseRule(std::string_view text);
  const Rule* RuleFor(CallKind kind, bool in_driver) const;
  // What an earlier call left behind for this one, which then has it no more.
  Error TakePending(bool in_driver);

  std::vector<Rule> rules_;
  // What the next call of any kind fails with, or the next one of the driver.
  Error pending_ = Error::kSuccess;
  bool pending_only_in_driver_ = false;
  uint64_t faults_ = 0;
  using ByKind = std::array<uint64_t, kCallKindNames.size()>;
  ByKind calls_{};
  ByKind driver_calls_{};
};

}  // namespace frugal::sim
