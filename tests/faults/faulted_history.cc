#include "tests/faults/faulted_history.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <set>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace frugal {
namespace {

using shadow::Operation;
using shadow::OperationKind;

// The last of the shadow tests' streams; those of a history take turns on the others.
constexpr uint8_t kCaptured = shadow::kStreams;
constexpr int64_t kIdleWanted = 3;
constexpr int64_t kTrimmed = 4;
constexpr int64_t kAsleep = 1;  // the tag of the block that sleeps

uint8_t NumberOf(Stream stream) { return static_cast<uint8_t>(1 + (stream.id - 1) % (kCaptured - 1)); }

// Writes a history down as operations.
class Translation {
 public:
  explicit Translation(const History& history) : history_(history), streams_(history.allocation_count) {}

  std::vector<Operation> Operations() {
    for (now_ = 0; now_ < std::ssize(history_.events); ++now_) {
      operations_.push_back({.kind = OperationKind::kPass, .amount = 1});
      Interlude();
      const HistoryEvent& event = history_.events[static_cast<size_t>(now_)];
      event.frees ? Free(event) : Allocate(event);
    }
    for (uint32_t block = 1; block <= history_.allocation_count; ++block) {
      operations_.push_back({.kind = OperationKind::kFree, .block = block});
    }
    operations_.push_back({.kind = OperationKind::kPass, .amount = now_ + history_.stream_lag});
    // What a failing call left behind is found again.
    for (int i = 0; i < 2; ++i) operations_.push_back({.kind = OperationKind::kTrim});
    return operations_;
  }

 private:
  // While it is captured, a stream that used a block cannot be marked.
  void Interlude() {
    const int64_t events = std::ssize(history_.events);
    if (now_ == events / 4) {
      operations_.push_back({.kind = OperationKind::kBeginCapture, .stream = kCaptured});
      if (!live_.empty()) {
        operations_.push_back({.kind = OperationKind::kRecordStream, .stream = kCaptured, .block = *live_.begin()});
      }
    }
    if (now_ == events / 2) operations_.push_back({.kind = OperationKind::kEndCapture, .stream = kCaptured});
    if (now_ == events * 3 / 4 && !live_.empty()) SleepAndWake(*live_.begin());
    if (now_ % 40 == 10) operations_.push_back({.kind = OperationKind::kMarkUse});
    if (now_ % 40 == 30) operations_.push_back({.kind = OperationKind::kReturnIdle, .amount = kIdleWanted});
    if (now_ % 60 == 50) operations_.push_back({.kind = OperationKind::kTrim, .amount = kTrimmed});
  }
  void SleepAndWake(uint32_t block) {
    operations_.push_back({.kind = OperationKind::kTag, .block = block, .amount = kAsleep});
    for (const OperationKind step : {OperationKind::kFallAsleep, OperationKind::kLetGo, OperationKind::kTakeBack,
                                     OperationKind::kTakeBack, OperationKind::kWakeUp}) {
      operations_.push_back({.kind = step, .amount = kAsleep});
    }
  }
  void Allocate(const HistoryEvent& event) {
    const uint8_t stream = streams_[event.allocation] = NumberOf(event.stream);
    live_.insert(event.allocation + 1);
    operations_.push_back({.kind = OperationKind::kAllocate,
                           .stream = stream,
                           .block = event.allocation + 1,
                           .amount = event.size.count()});
    operations_.push_back({.kind = OperationKind::kWork, .stream = stream, .amount = history_.stream_lag});
  }
  void Free(const HistoryEvent& event) {
    const uint32_t block = event.allocation + 1;
    operations_.push_back(
        {.kind = OperationKind::kWork, .stream = streams_[event.allocation], .amount = history_.stream_lag});
    if (event.ready > 0) {
      operations_.push_back({.kind = OperationKind::kUse,
                             .stream = NumberOf(event.late_stream),
                             .block = block,
                             .amount = event.ready - now_});
    }
    operations_.push_back({.kind = OperationKind::kFree, .block = block});
    live_.erase(block);
  }

  const History& history_;
  std::vector<uint8_t> streams_;  // by number of allocation
  std::set<uint32_t> live_;       // blocks
  std::vector<Operation> operations_;
  int64_t now_ = 0;
};

Operation SetToOne(std::string_view option) {
  const auto at = std::find(shadow::kOptions.begin(), shadow::kOptions.end(), option) - shadow::kOptions.begin();
  return {.kind = OperationKind::kSetOption, .option = static_cast<uint8_t>(at), .amount = 1};
}

}  // namespace

FaultedHistory::FaultedHistory(const History& history, const Memory& memory, shadow::CheckLevel level)
    : name_(absl::StrCat(history.name, memory.label)), level_(level) {
  program_.movable = memory.is_movable;
  if (memory.has_large_handles) {
    for (const char* option : {"waste_part", "request_part", "piece_part"}) {
      program_.operations.push_back(SetToOne(option));
    }
  }
  const std::vector<Operation> operations = Translation(history).Operations();
  program_.operations.insert(program_.operations.end(), operations.begin(), operations.end());
  for (program_.pages = PagesCovering(PeakOf(history)).count();;
       program_.pages += std::max<int64_t>(1, program_.pages / 100)) {
    tally_ = shadow::Tally();
    const std::string failure = Run("", SIZE_MAX);
    EXPECT_EQ(failure, "") << name_ << ", without a fault";
    if (!failure.empty() || tally_.out_of_memory == 0) break;
  }
  tally_ = shadow::Tally();
}

std::string FaultedHistory::Run(const std::string& faults, size_t faults_end) {
  shadow::ShadowRun run(program_, level_);
  run.SetFaults(faults);
  for (size_t i = 0; i < program_.operations.size(); ++i) {
    if (i == faults_end) run.SetFaults("");
    run.Step(program_.operations[i]);
  }
  for (const sim::CallKind kind : FailingKinds()) calls_[kind] = run.device().calls(kind);
  run.Finish();
  tally_ += run.tally();
  return run.failure();
}

void FaultedHistory::Play(const std::string& faults, size_t faults_end) {
  EXPECT_EQ(Run(faults, faults_end), "") << name_ << ", " << faults;
}

void FaultedHistory::Print(const std::string& what) const {
  std::printf("%s\n", absl::StrCat("COUNTS ", name_, ", ", what, ", ", program_.pages * kPageSize.count() >> 20,
                                   " MiB: ", tally_.faults, " faults in ", tally_.operations,
                                   " operations: ", tally_.allocations, " requests served, ", tally_.out_of_memory,
                                   " out of memory; ", tally_.large.created, " handles of several pages")
                          .c_str());
}

const std::vector<sim::CallKind>& FailingKinds() {
  static const auto* kinds = [] {
    auto* made = new std::vector<sim::CallKind>;
    for (size_t i = 0; i < sim::kCallKindNames.size(); ++i) {
      const auto kind = static_cast<sim::CallKind>(i);
      if (kind != sim::CallKind::kUnmapWhileBusy && kind != sim::CallKind::kLaunch) made->push_back(kind);
    }
    return made;
  }();
  return *kinds;
}

std::string NameOf(sim::CallKind kind) { return std::string(sim::kCallKindNames[static_cast<size_t>(kind)]); }

const std::vector<std::string>& FailingErrors() {
  static const auto* errors = new std::vector<std::string>{
      "out_of_memory", "invalid_value", "unknown", "capture_invalidated", "late_out_of_memory", "late_launch_failed"};
  return *errors;
}

}  // namespace frugal
