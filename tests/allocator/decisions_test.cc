// What the policy decides, to the call: the same work takes the same driver calls and holds the same memory, on record.
//
// The figures are no ideal, but any change of theirs is to be meant: one that is not is a bug that the tests of
// invariants cannot see, such as a cost that is subtracted. After a change that is meant, see that they did not get
// worse, and put them on record:
//
//   bazel run //tests/allocator:decisions_test -- --accept

#include <array>
#include <iostream>
#include <map>
#include <optional>
#include <ostream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/allocator/allocator_fixture.h"
#include "tests/allocator/recorded_figures.h"

namespace frugal {
namespace {

RecordedFigures* the_record = nullptr;
bool accepts = false;

// Work with a character of its own. Everything else comes from the seed.
struct Work {
  std::string name;
  Bytes memory;
  bool virtual_memory = true;
  int streams = 1;
  // Sizes are drawn evenly between `least` and `most`, from as many different ones as `sizes`.
  Bytes least;
  Bytes most;
  int sizes = 12;
  // Of a hundred operations.
  int uses_by_others = 0;
  int advances = 0;
  int trims = 0;
  int idle_returns = 0;
  int captures = 0;  // that begin or end
  // Before so many of a hundred operations it is drawn anew which calls of the device are to fail.
  int failures = 0;
  // How long a use keeps its stream busy.
  int64_t busy = 0;
  Bytes limit = kUnlimited;
  // Every so many operations all is freed, and the same begin again; 0: never.
  int turn = 0;
  int steps = 4000;

  friend void PrintTo(const Work& work, std::ostream* stream) { *stream << work.name; }
};

class Decisions : public testing::TestWithParam<Work> {
 protected:
  using CallKind = sim::CallKind;
  static constexpr uint64_t kSeed = 20'261'121;

  Decisions()
      : device_({.memory = work_.memory, .virtual_memory = work_.virtual_memory}),
        allocator_(device_, directory_, nullptr) {
    allocator_.settings().limit().Set(work_.limit);
    for (int i = 0; i < work_.sizes; ++i) sizes_.push_back(Bytes(Draw(work_.least.count(), work_.most.count())));
  }

  // The standard's distributions differ from one library to the next.
  int64_t Draw(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random_() % static_cast<uint64_t>(most - least + 1));
  }
  Stream DrawStream() { return Stream{static_cast<uint64_t>(Draw(1, work_.streams))}; }

  void Allocate() {
    const Bytes size = sizes_[static_cast<size_t>(Draw(0, work_.sizes - 1))];
    absl::StatusOr<Allocation> made = allocator_.Allocate(size, DrawStream());
    Note(made.status());
    if (made.ok()) live_.push_back(made->address);
    // As programs do: what could not be served is tried again with less in use.
    for (int i = 0; !made.ok() && i < 4 && !live_.empty(); ++i) FreeOne();
  }
  // What the program was told.
  void Note(const absl::Status& status) {
    EXPECT_TRUE(work_.failures > 0 || status.ok() || absl::IsResourceExhausted(status)) << status;
    ++told_[absl::StatusCodeToString(status.code())];
  }
  void NoteReturned(const absl::StatusOr<Bytes>& returned) {
    Note(returned.status());
    returned_ += returned.value_or(Bytes(0));
  }
  void FreeOne() {
    const size_t which = static_cast<size_t>(Draw(0, std::ssize(live_) - 1));
    EXPECT_TRUE(allocator_.Free(live_[which]).ok());
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(which));
  }
  void UseByAnother() {
    const Stream stream = DrawStream();
    device_.MakeBusyUntil(stream, device_.now() + sim::Nanoseconds(Draw(1, work_.busy)));
    if (!live_.empty()) {
      EXPECT_TRUE(allocator_.RecordStream(live_[static_cast<size_t>(Draw(0, std::ssize(live_) - 1))], stream).ok());
    }
  }
  // One of the next calls of a kind fails, or all of them from then on, or none, until another is drawn.
  void DrawFailure() {
    constexpr std::array kKinds = {"create",  "map",          "set_access",  "unmap", "release",
                                   "reserve", "event_record", "event_query", "sync",  "stream_wait",
                                   "malloc",  "free",         "memory_info"};
    constexpr std::array kErrors = {"out_of_memory", "invalid_value", "capture_unsupported", "late_unknown"};
    const char* const kind = kKinds[static_cast<size_t>(Draw(0, kKinds.size() - 1))];
    const char* const error = kErrors[static_cast<size_t>(Draw(0, kErrors.size() - 1))];
    const int64_t call = Draw(1, 6);
    const char* const after = Draw(0, 5) == 0 ? "+" : "";
    faults_ += device_.faults();
    ASSERT_TRUE(device_.SetFaults(Draw(0, 9) < 8 ? absl::StrCat(kind, "@", call, after, "=", error) : ""));
  }
  void BeginOrEndCapture() {
    if (captured_.has_value()) {
      device_.EndCapture(*captured_);
      captured_.reset();
    } else {
      captured_ = DrawStream();
      device_.BeginCapture(*captured_);
    }
  }
  // Grows for a while, shrinks for a while, as a training step does.
  void Step(int step) {
    if (work_.turn > 0 && step % work_.turn == 0) {
      while (!live_.empty()) FreeOne();
      random_.seed(kSeed);
    }
    int64_t choice = Draw(0, 99);
    if (work_.failures > 0 && Draw(0, 99) < work_.failures) DrawFailure();
    if ((choice -= work_.uses_by_others) < 0) return UseByAnother();
    if ((choice -= work_.advances) < 0) return device_.AdvanceTo(device_.now() + sim::Nanoseconds(work_.busy / 4));
    if ((choice -= work_.trims) < 0) {
      NoteReturned(allocator_.Trim(Bytes(Draw(1, GiB(1).count()))));
      return;
    }
    if ((choice -= work_.idle_returns) < 0) {
      Note(allocator_.MarkUse());
      NoteReturned(allocator_.ReturnIdle(MiB(16)));
      return;
    }
    if ((choice -= work_.captures) < 0) return BeginOrEndCapture();
    const bool grows = step % 100 < 60 ? Draw(0, 9) < 7 : Draw(0, 9) < 2;
    if (grows || live_.empty()) {
      Allocate();
    } else {
      FreeOne();
    }
  }

  // As the end of a program whose driver works again.
  void GiveAllBack() {
    faults_ += device_.faults();
    std::cout << "COUNTS " << work_.name << ": " << work_.steps << " operations, " << faults_ << " failed calls, seed "
              << kSeed << "\n";
    ASSERT_TRUE(device_.SetFaults(""));
    if (captured_.has_value()) BeginOrEndCapture();
    while (!live_.empty()) FreeOne();
    EXPECT_TRUE(allocator_.Trim().ok());
    allocator_.inspect().CheckInvariants();
  }

  Figures Counted() const {
    Figures figures;
    for (auto kind : {CallKind::kCreate, CallKind::kMap, CallKind::kSetAccess, CallKind::kUnmap, CallKind::kRelease,
                      CallKind::kReserve, CallKind::kEventRecord, CallKind::kEventQuery, CallKind::kStreamWait,
                      CallKind::kSync, CallKind::kMalloc, CallKind::kFree}) {
      const auto calls = static_cast<int64_t>(device_.calls(kind));
      if (calls > 0) figures["calls: " + std::string(sim::kCallKindNames[static_cast<size_t>(kind)])] = calls;
    }
    const Statistics statistics = allocator_.GetStatistics();
    figures["peak MiB"] = device_.peak().count() >> 20;
    figures["stitches"] = statistics.num_stitches;
    figures["stitched pages"] = statistics.num_stitched_pages;
    figures["stream waits"] = statistics.num_stream_waits;
    figures["out of memory"] = statistics.num_ooms;
    figures["retries"] = statistics.num_alloc_retries;
    if (work_.failures == 0) return figures;
    figures["failed calls"] = static_cast<int64_t>(faults_);
    figures["failed calls absorbed"] = statistics.num_driver_failures;
    figures["returned MiB"] = returned_.count() >> 20;
    figures["held MiB"] = allocator_.inspect().Held().count() >> 20;
    for (const auto& [what, times] : told_) figures[absl::StrCat("told ", what)] = times;
    return figures;
  }

  const Work work_ = GetParam();
  std::mt19937_64 random_{kSeed};
  sim::SimulatedDevice device_;
  AddressDirectory directory_;
  DeviceAllocator allocator_;
  std::vector<Bytes> sizes_;
  std::vector<Address> live_;
  std::optional<Stream> captured_;
  uint64_t faults_ = 0;
  Bytes returned_;
  std::map<std::string, int> told_;
};

const std::vector<Work> kWorks = {
    Work{.name = "one_stream", .memory = GiB(4), .streams = 1, .least = KiB(1), .most = MiB(60)},
    Work{.name = "the_same_turn_again",
         .memory = MiB(512),
         .streams = 1,
         .least = KiB(1),
         .most = MiB(40),
         .sizes = 30,
         .turn = 250},
    Work{.name = "the_same_turn_again_on_two_streams",
         .memory = MiB(512),
         .streams = 2,
         .least = KiB(1),
         .most = MiB(40),
         .sizes = 30,
         .turn = 250},
    Work{.name = "ever_new_sizes", .memory = GiB(4), .streams = 1, .least = KiB(1), .most = MiB(60), .sizes = 400},
    Work{.name = "two_streams_in_little_memory",
         .memory = MiB(400),
         .streams = 2,
         .least = MiB(1),
         .most = MiB(40),
         .uses_by_others = 3,
         .advances = 5,
         .busy = 100},
    Work{.name = "streams_that_use_each_others_blocks",
         .memory = MiB(600),
         .streams = 3,
         .least = KiB(200),
         .most = MiB(30),
         .uses_by_others = 15,
         .advances = 8,
         .busy = 400},
    Work{.name = "streams_that_are_always_busy",
         .memory = MiB(300),
         .streams = 3,
         .least = MiB(1),
         .most = MiB(30),
         .uses_by_others = 10,
         .advances = 2,
         .busy = 10'000},
    Work{.name = "memory_given_back",
         .memory = MiB(800),
         .streams = 2,
         .least = KiB(1),
         .most = MiB(30),
         .uses_by_others = 8,
         .advances = 8,
         .trims = 1,
         .idle_returns = 3,
         .busy = 300},
    Work{.name = "small_blocks_under_a_limit",
         .memory = MiB(256),
         .streams = 4,
         .least = Bytes(1),
         .most = MiB(3),
         .sizes = 60,
         .uses_by_others = 4,
         .advances = 4,
         .busy = 200,
         .limit = MiB(24)},
    Work{.name = "segments",
         .memory = MiB(600),
         .virtual_memory = false,
         .streams = 2,
         .least = KiB(1),
         .most = MiB(30),
         .uses_by_others = 5,
         .advances = 5,
         .trims = 1,
         .busy = 300},
    Work{.name = "calls_that_fail",
         .memory = MiB(400),
         .streams = 3,
         .least = KiB(200),
         .most = MiB(40),
         .uses_by_others = 10,
         .advances = 5,
         .trims = 2,
         .idle_returns = 3,
         .captures = 1,
         .failures = 80,
         .busy = 300,
         .steps = 8000},
    Work{.name = "calls_that_fail_on_a_full_device",
         .memory = MiB(200),
         .streams = 3,
         .least = MiB(1),
         .most = MiB(30),
         .uses_by_others = 10,
         .advances = 2,
         .trims = 1,
         .idle_returns = 1,
         .failures = 80,
         .busy = 10'000,
         .steps = 8000},
    Work{.name = "calls_that_fail_while_memory_goes_back",
         .memory = MiB(400),
         .streams = 2,
         .least = KiB(1),
         .most = MiB(30),
         .uses_by_others = 5,
         .advances = 8,
         .trims = 8,
         .idle_returns = 8,
         .captures = 1,
         .failures = 80,
         .busy = 100,
         .steps = 8000},
    Work{.name = "calls_of_segments_that_fail",
         .memory = MiB(400),
         .virtual_memory = false,
         .streams = 2,
         .least = KiB(1),
         .most = MiB(30),
         .uses_by_others = 5,
         .advances = 5,
         .trims = 3,
         .idle_returns = 3,
         .captures = 1,
         .failures = 80,
         .busy = 300,
         .steps = 8000}};

TEST_P(Decisions, AreThoseOnRecord) {
  for (int step = 0; step < work_.steps; ++step) Step(step);
  allocator_.inspect().CheckInvariants();
  if (accepts) {
    the_record->Set(work_.name, Counted());
  } else {
    EXPECT_THAT(the_record->Differences(work_.name, Counted()), testing::IsEmpty());
  }
  GiveAllBack();
  EXPECT_EQ(device_.used(), Bytes(0));
}

INSTANTIATE_TEST_SUITE_P(Works, Decisions, testing::ValuesIn(kWorks), [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace frugal

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  frugal::RecordedFigures record("tests/allocator/decisions.json");
  frugal::the_record = &record;
  frugal::accepts = argc == 2 && std::string_view(argv[1]) == "--accept";
  const int failed = RUN_ALL_TESTS();
  return frugal::accepts && !record.Save() ? 1 : failed;
}
