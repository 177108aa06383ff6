#include "simulated_gpu/machine/fault_plan.h"

#include <utility>

#include "simulated_gpu/machine/setting_text.h"

namespace frugal::sim {
namespace {

constexpr std::string_view kLate = "late_";
constexpr std::string_view kPartial = "partial_";
constexpr std::string_view kOnlyInDriver = "driver.";

}  // namespace

std::optional<FaultPlan> FaultPlan::Parse(std::string_view text) {
  FaultPlan plan;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::optional<Rule> rule = ParseRule(text.substr(0, comma));
    if (!rule) return std::nullopt;
    plan.rules_.push_back(*rule);
    text = comma == std::string_view::npos ? "" : text.substr(comma + 1);
  }
  return plan;
}

std::optional<FaultPlan::Rule> FaultPlan::ParseRule(std::string_view text) {
  const size_t at = text.find('@');
  const size_t equals = text.find('=');
  if (at == std::string_view::npos || equals == std::string_view::npos || equals < at) return std::nullopt;
  std::string_view number = text.substr(at + 1, equals - at - 1);
  const bool and_all_after = number.ends_with('+');
  if (and_all_after) number.remove_suffix(1);

  std::string_view kind_name = text.substr(0, at);
  const bool only_in_driver = kind_name.starts_with(kOnlyInDriver);
  if (only_in_driver) kind_name.remove_prefix(kOnlyInDriver.size());
  const std::optional<CallKind> kind = CallKindFromName(kind_name);
  std::string_view name = text.substr(equals + 1);
  const bool late = name.starts_with(kLate);
  if (late) name.remove_prefix(kLate.size());
  const bool partial = name.starts_with(kPartial);
  if (partial) name.remove_prefix(kPartial.size());
  const std::optional<Error> error = ErrorFromName(name);
  const int64_t call = ParseNumber(number).value_or(0);
  if (!kind || *kind == CallKind::kUnmapWhileBusy || !error || *error == Error::kSuccess || call == 0) {
    return std::nullopt;
  }
  if (partial && (late || *kind != CallKind::kUnmap)) return std::nullopt;
  return Rule{*kind, only_in_driver, static_cast<uint64_t>(call), and_all_after, late, partial, *error};
}

Error FaultPlan::Next(CallKind kind, bool in_driver, bool* partial) {
  if (partial != nullptr) *partial = false;
  ++calls_[static_cast<size_t>(kind)];
  if (in_driver) ++driver_calls_[static_cast<size_t>(kind)];
  Error error = TakePending(in_driver);
  // A call that fails with an earlier call's error is not made, so it causes none of its own.
  if (error == Error::kSuccess) {
    const Rule* rule = RuleFor(kind, in_driver);
    if (rule != nullptr) {
      (rule->late ? pending_ : error) = rule->error;
      pending_only_in_driver_ = rule->only_in_driver;
      if (partial != nullptr) *partial = rule->partial;
    }
  }
  if (error != Error::kSuccess) ++faults_;
  return error;
}

Error FaultPlan::TakePending(bool in_driver) {
  if (pending_only_in_driver_ && !in_driver) return Error::kSuccess;
  return std::exchange(pending_, Error::kSuccess);
}

const FaultPlan::Rule* FaultPlan::RuleFor(CallKind kind, bool in_driver) const {
  for (const Rule& rule : rules_) {
    if (rule.kind != kind || (rule.only_in_driver && !in_driver)) continue;
    const uint64_t call = (rule.only_in_driver ? driver_calls_ : calls_)[static_cast<size_t>(kind)];
    if (rule.call == call || (rule.and_all_after && rule.call < call)) return &rule;
  }
  return nullptr;
}

}  // namespace frugal::sim
