#include "tests/allocator/random_work.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace frugal {
namespace {

constexpr uint64_t kSeed = 20'261'121;

}  // namespace

const std::vector<Work>& AllWorks() {
  static const std::vector<Work> works = {
      // {least, most, count} of the sizes; {uses by others, advances, trims, idle returns, captures, failures, sleeps}.
      {"one_stream", GiB(4), true, 1, {KiB(1), MiB(60), 12}},
      {"the_same_turn_again", MiB(512), true, 1, {KiB(1), MiB(40), 30}, {}, 0, kUnlimited, 250},
      {"the_same_turn_again_on_two_streams", MiB(512), true, 2, {KiB(1), MiB(40), 30}, {}, 0, kUnlimited, 250},
      {"ever_new_sizes", GiB(4), true, 1, {KiB(1), MiB(60), 400}},
      {"two_streams_in_little_memory", MiB(400), true, 2, {MiB(1), MiB(40), 12}, {3, 5}, 100},
      {"streams_that_use_each_others_blocks", MiB(600), true, 3, {KiB(200), MiB(30), 12}, {15, 8}, 400},
      {"streams_that_are_always_busy", MiB(300), true, 3, {MiB(1), MiB(30), 12}, {10, 2}, 10'000},
      {"memory_given_back", MiB(800), true, 2, {KiB(1), MiB(30), 12}, {8, 8, 1, 3}, 300},
      {"small_blocks_under_a_limit", MiB(256), true, 4, {Bytes(1), MiB(3), 60}, {4, 4}, 200, MiB(24)},
      {"segments", MiB(600), false, 2, {KiB(1), MiB(30), 12}, {5, 5, 1}, 300},
      {"calls_that_fail", MiB(400), true, 3, {KiB(200), MiB(40), 12}, {10, 5, 2, 3, 1, 80}, 300},
      {"calls_that_fail_on_a_full_device", MiB(200), true, 3, {MiB(1), MiB(30), 12}, {10, 2, 1, 1, 0, 80}, 10'000},
      {"calls_that_fail_while_memory_goes_back", MiB(400), true, 2, {KiB(1), MiB(30), 12}, {5, 8, 8, 8, 1, 80}, 100},
      {"blocks_that_sleep", MiB(400), true, 2, {KiB(1), MiB(30), 12}, {5, 8, 2, 2, 0, 0, 8}, 100},
      {"calls_that_fail_while_blocks_sleep", MiB(400), true, 2, {KiB(1), MiB(30), 12}, {5, 8, 2, 2, 1, 80, 8}, 100},
      {"pools", MiB(400), true, 2, {KiB(1), MiB(30), 12}, {8, 8, 1, 3}, 300, kUnlimited, 0, 3},
      {"pools_that_sleep", MiB(400), true, 2, {KiB(1), MiB(30), 12}, {8, 8, 1, 3, 0, 0, 8}, 300, kUnlimited, 0, 3},
      {"pools_while_calls_fail",
       MiB(400),
       true,
       2,
       {KiB(1), MiB(30), 12},
       {5, 8, 3, 3, 1, 80, 5},
       300,
       kUnlimited,
       0,
       3},
      {"calls_of_segments_that_fail", MiB(400), false, 2, {KiB(1), MiB(30), 12}, {5, 5, 3, 3, 1, 80}, 300},
  };
  return works;
}

RandomWork::RandomWork(const Work& work, const PolicyOptions& options)
    : work_(work),
      random_(kSeed),
      device_({.memory = work.memory, .virtual_memory = work.virtual_memory}),
      allocator_(device_, directory_, nullptr) {
  allocator_.settings().SetOptions(options);
  allocator_.settings().limit().Set(work_.limit);
  for (int i = 0; i < work_.sizes.count; ++i)
    sizes_.push_back(Bytes(Draw(work_.sizes.least.count(), work_.sizes.most.count())));
}

// The standard's distributions differ from one library to the next.
int64_t RandomWork::Draw(int64_t least, int64_t most) {
  return least + static_cast<int64_t>(random_() % static_cast<uint64_t>(most - least + 1));
}

void RandomWork::Allocate() {
  const Bytes size = sizes_[static_cast<size_t>(Draw(0, work_.sizes.count - 1))];
  const Stream stream = DrawStream();
  const PoolId pool = work_.pools > 0 ? DrawPool() : PoolId();
  const absl::StatusOr<Allocation> made =
      pool.is_default() ? allocator_.Allocate(size, stream) : allocator_.AllocateFrom(SourceOf(pool), size, stream);
  Note(made.status());
  out_of_memory_ += absl::IsResourceExhausted(made.status()) ? 1 : 0;
  if (made.ok()) {
    live_.push_back({made->address, made->size, size});
    Allocated(live_.back());
  }
  // As programs do: what could not be served is tried again with less in use.
  for (int i = 0; !made.ok() && i < 4 && !live_.empty(); ++i) FreeOne();
}

MemorySource RandomWork::SourceOf(PoolId pool) {
  return {pool, pool.second % 2 == 1 ? MemoryKind::kFixed : MemoryKind::kMovable};
}

PoolId RandomWork::DrawPool() {
  while (std::ssize(pools_) < work_.pools) pools_.push_back(++latest_pool_);
  const int64_t which = Draw(0, work_.pools);
  if (which == work_.pools) return {};
  uint64_t& number = pools_[static_cast<size_t>(which)];
  const int64_t choice = Draw(0, 59);
  const bool is_of_graphs = SourceOf({0, number}).kind == MemoryKind::kFixed;
  if (choice == 0 || (is_of_graphs && choice >= 40)) Note(allocator_.KeepPool({0, number}));
  if (choice < 3) {
    Note(allocator_.ReleasePool({0, number}));
    number = ++latest_pool_;
  }
  return {0, number};
}

void RandomWork::Note(const absl::Status& status) {
  EXPECT_TRUE(work_.often.failures > 0 || status.ok() || absl::IsResourceExhausted(status)) << status;
  ++told_[absl::StatusCodeToString(status.code())];
}

void RandomWork::NoteReturned(const absl::StatusOr<Bytes>& returned) {
  Note(returned.status());
  returned_ += returned.value_or(Bytes(0));
}

void RandomWork::FreeOne() {
  const size_t which = static_cast<size_t>(Draw(0, std::ssize(live_) - 1));
  const Live block = live_[which];
  live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(which));
  EXPECT_EQ(allocator_.Free(block.address).value_or(Bytes(-1)), block.size);
  Freed(block);
}

void RandomWork::UseByAnother() {
  const Stream stream = DrawStream();
  device_.MakeBusyUntil(stream, device_.now() + sim::Nanoseconds(Draw(1, work_.busy)));
  if (live_.empty()) return;
  const Live& block = live_[static_cast<size_t>(Draw(0, std::ssize(live_) - 1))];
  EXPECT_TRUE(allocator_.RecordStream(block.address, stream).ok());
}

// One of the next calls of a kind fails, or all of them from then on, or none, until another is drawn.
void RandomWork::DrawFailure() {
  constexpr std::array kKinds = {"create",  "map",          "set_access",  "unmap", "release",
                                 "reserve", "event_record", "event_query", "sync",  "stream_wait",
                                 "malloc",  "free",         "memory_info"};
  constexpr std::array kErrors = {"out_of_memory", "invalid_value", "capture_unsupported", "late_unknown"};
  const char* const kind = kKinds[static_cast<size_t>(Draw(0, kKinds.size() - 1))];
  const char* const error = kErrors[static_cast<size_t>(Draw(0, kErrors.size() - 1))];
  const int64_t call = Draw(1, 6);
  const char* const after = Draw(0, 5) == 0 ? "+" : "";
  past_faults_ += device_.faults();
  ASSERT_TRUE(device_.SetFaults(Draw(0, 9) < 8 ? absl::StrCat(kind, "@", call, after, "=", error) : ""));
}

void RandomWork::BeginOrEndCapture() {
  if (captured_.has_value()) {
    device_.EndCapture(*captured_);
    captured_.reset();
  } else {
    captured_ = DrawStream();
    device_.BeginCapture(*captured_);
  }
}

void RandomWork::SleepOrWake() {
  Sleep sleep = allocator_.sleep();
  const auto all = [](Address, uint8_t) { return true; };
  if (is_asleep_) {
    const absl::Status back = sleep.TakeBack(all).status();
    Note(back);
    if (back.ok()) is_asleep_ = !sleep.WakeUp(all).ok();
    return;
  }
  // By where they lie in their page: where a range begins is the system's choice.
  const auto third = static_cast<uint64_t>(Draw(0, 2));
  const absl::Status asleep =
      sleep.FallAsleep([=](Address address, uint8_t) { return address.value() / 512 % 4096 % 3 == third; }).status();
  Note(asleep);
  if (!asleep.ok()) return;
  is_asleep_ = true;
  // As while they are copied.
  if (!live_.empty()) FreeOne();
  Note(sleep.LetGo().status());
}

void RandomWork::Step(int step) {
  if (work_.turn > 0 && step % work_.turn == 0) {
    while (!live_.empty()) FreeOne();
    random_.seed(kSeed);
  }
  int64_t choice = Draw(0, 99);
  if (work_.often.failures > 0 && Draw(0, 99) < work_.often.failures) DrawFailure();
  if ((choice -= work_.often.uses_by_others) < 0) return UseByAnother();
  if ((choice -= work_.often.advances) < 0) return device_.AdvanceTo(device_.now() + sim::Nanoseconds(work_.busy / 4));
  if ((choice -= work_.often.trims) < 0) {
    NoteReturned(allocator_.Trim(Bytes(Draw(1, GiB(1).count()))));
    return;
  }
  if ((choice -= work_.often.idle_returns) < 0) {
    Note(allocator_.MarkUse());
    NoteReturned(allocator_.ReturnIdle(MiB(16)));
    return;
  }
  if ((choice -= work_.often.captures) < 0) return BeginOrEndCapture();
  if ((choice -= work_.often.sleeps) < 0) return SleepOrWake();
  const bool grows = step % 100 < 60 ? Draw(0, 9) < 7 : Draw(0, 9) < 2;
  if (grows || live_.empty()) {
    Allocate();
  } else {
    FreeOne();
  }
}

void RandomWork::GiveAllBack() {
  past_faults_ += device_.faults();
  ASSERT_TRUE(device_.SetFaults(""));
  if (captured_.has_value()) BeginOrEndCapture();
  while (!live_.empty()) FreeOne();
  for (uint64_t& number : pools_) {
    Note(allocator_.ReleasePool({0, number}));
    number = ++latest_pool_;
  }
  EXPECT_TRUE(allocator_.Trim().ok());
  allocator_.inspect().CheckInvariants();
  EXPECT_EQ(device_.used(), Bytes(0)) << "everything goes back";
}

}  // namespace frugal
