// Steps of a training run, again and again: what we hold of the device, what we ask of it and what we take of the host
// do not drift.
//
//   FRUGAL_SOAK_STEPS=N  how many steps, from 2,400 on (default 4,800; a day of two steps a second has 172,800)

#include <malloc.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "allocator/blocks/extent.h"
#include "allocator/device_allocator.h"
#include "gtest/gtest.h"
#include "simulated_gpu/machine/simulated_device.h"
#include "tests/environment.h"
#include "tests/histories/history.h"

namespace {

std::atomic<int64_t> heap_bytes{0};

}  // namespace

// Sanitizers bring their own, which see more; there the host's memory is left to them.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

void* operator new(size_t size) {
  void* const memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  heap_bytes += static_cast<int64_t>(malloc_usable_size(memory));
  return memory;
}

void operator delete(void* memory) noexcept {
  heap_bytes -= static_cast<int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

void operator delete(void* memory, size_t) noexcept { operator delete(memory); }

#endif

namespace frugal {
namespace {

// See PastStitches.
constexpr int64_t kMostStitches = 8192;
constexpr int64_t kBytesOfAStitch = 48;
// Of a page's view, which a call that maps makes if the page had none before: until all of a range has been touched.
constexpr int64_t kBytesOfAView = sizeof(View);

// After one turn of the loop.
struct Sample {
  int64_t reserved;
  int64_t device_calls;  // in the turn
  int64_t heap;          // with the simulated device's
  int64_t events;        // of the device that are held
  int64_t stitches;      // up to now
};

class TrainingLoop {
 public:
  explicit TrainingLoop(const History& history)
      : history_(history), allocator_(device_, directory_, nullptr), blocks_(history.allocation_count) {
    allocator_.settings().SetCheckLevel(CheckLevel::kFast);
    for (const HistoryEvent& event : history.events) {
      streams_ = std::max(streams_, static_cast<int64_t>(event.stream.id));
    }
    for (int64_t i = 0; i < history.warm_up_end; ++i) Allocate(EventAt(i));
  }

  Sample Turn() {
    device_.ResetCounters();
    const int64_t end = std::ssize(history_.events);
    for (int64_t i = history_.warm_up_end; i < end; ++i) Play(EventAt(i));
    // The next turn finds what this one found.
    for (int64_t i = history_.warm_up_end; i < end; ++i) {
      if (!EventAt(i).frees && blocks_[EventAt(i).allocation].has_value()) Free(EventAt(i));
    }
    for (int64_t i = 0; i < history_.warm_up_end; ++i) {
      if (!blocks_[EventAt(i).allocation].has_value()) Allocate(EventAt(i));
    }
    int64_t calls = 0;
    for (size_t kind = 0; kind < sim::kCallKindNames.size(); ++kind) {
      calls += static_cast<int64_t>(device_.calls(static_cast<sim::CallKind>(kind)));
    }
    const Statistics statistics = allocator_.GetStatistics();
    return {statistics.reserved_bytes[SizeGroup::kAll].current, calls, heap_bytes.load(), device_.live_events(),
            statistics.num_stitches};
  }

  int64_t operations() const { return operations_; }
  // At most: one for each stream and size group.
  int64_t arenas() const { return 2 * streams_; }
  int64_t refused() const { return refused_; }
  void CheckInvariants() const { allocator_.inspect().CheckInvariants(); }

 private:
  struct Live {
    Address address;
    Stream stream;
  };

  const HistoryEvent& EventAt(int64_t i) const { return history_.events[static_cast<size_t>(i)]; }

  void Play(const HistoryEvent& event) {
    device_.AdvanceTo(sim::Nanoseconds(++now_));
    if (event.frees) {
      Free(event);
    } else {
      Allocate(event);
    }
  }
  void Allocate(const HistoryEvent& event) {
    ++operations_;
    absl::StatusOr<Allocation> block = allocator_.Allocate(event.size, event.stream);
    if (!block.ok()) {
      ++refused_;
      return;
    }
    blocks_[event.allocation] = Live{block->address, event.stream};
    Work(event.stream);
  }
  void Free(const HistoryEvent& event) {
    ++operations_;
    std::optional<Live>& block = blocks_[event.allocation];
    Work(block->stream);
    if (!allocator_.Free(block->address).ok()) ++refused_;
    block.reset();
  }
  void Work(Stream stream) {
    if (history_.stream_lag > 0) device_.MakeBusyUntil(stream, sim::Nanoseconds(now_ + history_.stream_lag));
  }

  const History& history_;
  sim::SimulatedDevice device_;
  AddressDirectory directory_;
  DeviceAllocator allocator_;
  std::vector<std::optional<Live>> blocks_;
  int64_t streams_ = 0;
  int64_t now_ = 0;
  int64_t operations_ = 0;
  int64_t refused_ = 0;
};

struct Loop {
  const char* name;
  int64_t steps;  // in a turn
};

class Soak : public testing::TestWithParam<Loop> {
 protected:
  static int64_t Steps() { return FromEnvironment("FRUGAL_SOAK_STEPS", 9'600 / kSlowdown); }
};

// A quarter of the turns.
struct Quarter {
  int64_t most_reserved = 0;
  int64_t device_calls = 0;
  int64_t most_heap = 0;
  int64_t most_events = 0;
  int64_t stitches = 0;  // up to its end

  void Add(const Sample& sample) {
    most_reserved = std::max(most_reserved, sample.reserved);
    device_calls += sample.device_calls;
    most_heap = std::max(most_heap, sample.heap);
    most_events = std::max(most_events, sample.events);
    stitches = sample.stitches;
  }
};

TEST_P(Soak, NothingDrifts) {
  const History history = ReadHistory(absl::StrCat("tests/histories/loops/", GetParam().name, ".json"));
  const int64_t turns = std::max(Steps() / GetParam().steps / 4 * 4, int64_t{8});
  TrainingLoop training(history);
  std::array<Quarter, 4> quarters;
  for (int64_t turn = 0; turn < turns; ++turn) quarters[static_cast<size_t>(turn * 4 / turns)].Add(training.Turn());
  training.CheckInvariants();
  EXPECT_EQ(training.refused(), 0);

  if (kSlowdown > 1) return;  // So few steps end before the loop has settled.
  const Quarter& second = quarters[1];
  const Quarter& last = quarters[3];
  // The least is at times a page off: what streams have done when memory is asked for differs from turn to turn.
  EXPECT_LE(last.most_reserved, second.most_reserved + 4 * kPageSize.count());
  EXPECT_LE(last.device_calls, second.device_calls + second.device_calls / 10);
  // The most that a turn has is met late: 225 with four streams, in four times as many turns, too.
  EXPECT_LE(last.most_events, second.most_events + second.most_events / 8);
  // Each arena remembers where its latest stitches were made. A loop that does not come to rest goes on to touch pages
  // of its ranges, twice the device each, whose views take some memory.
  const int64_t remembered = std::min(last.stitches - second.stitches, kMostStitches * training.arenas());
  const int64_t calls = quarters[2].device_calls + last.device_calls;
  EXPECT_LE(last.most_heap,
            second.most_heap + second.most_heap / 5 + remembered * kBytesOfAStitch + calls * kBytesOfAView);
  std::printf("%s\n", absl::StrCat("COUNTS soak of ", GetParam().name, ": ", turns * GetParam().steps, " steps, ",
                                   training.operations(), " operations; in the second quarter and the last: ",
                                   second.most_reserved >> 20, " and ", last.most_reserved >> 20, " MiB reserved, ",
                                   second.device_calls / (turns / 4), " and ", last.device_calls / (turns / 4),
                                   " device calls a turn, ", second.most_heap >> 10, " and ", last.most_heap >> 10,
                                   " KiB of host memory, ", second.most_events, " and ", last.most_events, " events")
                          .c_str());
}

INSTANTIATE_TEST_SUITE_P(Loops, Soak, testing::Values(Loop{"gpt60", 3}, Loop{"fixed_training_4", 4}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace frugal
