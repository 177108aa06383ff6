// After each of many random operations every figure of the books is what the snapshot, the program and the device say
// it is, by size group: nothing is counted twice, for the wrong group, or not at all.
//
//   FRUGAL_TEST_SEED=S   what is drawn (default 1)

#include <algorithm>
#include <array>
#include <iostream>
#include <iterator>
#include <map>
#include <ostream>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/allocator/allocator_fixture.h"
#include "tests/environment.h"

namespace frugal {
namespace {

constexpr int kOperations = 2000;
constexpr std::array kGroups = {SizeGroup::kSmall, SizeGroup::kLarge, SizeGroup::kAll};

// By size group, as plain sums.
struct Plain {
  int64_t current = 0;
  int64_t allocated = 0;

  void Add(int64_t amount) {
    current += amount;
    allocated += amount;
  }
};
class PlainFigure {
 public:
  Plain& operator[](SizeGroup group) { return groups_[static_cast<size_t>(group)]; }
  void Add(bool small, int64_t amount) {
    for (Plain* plain : {&(*this)[small ? SizeGroup::kSmall : SizeGroup::kLarge], &(*this)[SizeGroup::kAll]}) {
      plain->Add(amount);
    }
  }
  void Take(bool small, int64_t amount) {
    for (SizeGroup group : {small ? SizeGroup::kSmall : SizeGroup::kLarge, SizeGroup::kAll}) {
      (*this)[group].current -= amount;
    }
  }

 private:
  std::array<Plain, 3> groups_;
};

struct Setting {
  std::string name;
  Bytes memory;
  bool virtual_memory;
  bool fails;          // calls of the device, now and then
  bool sized = false;  // handles of several pages, though the device is small
  friend void PrintTo(const Setting& setting, std::ostream* stream) { *stream << setting.name; }
};

class Books : public testing::TestWithParam<Setting> {
 protected:
  Books() {
    if (!GetParam().sized) return;
    PolicyOptions options;
    options.request_part = 1;
    options.piece_part = 4;
    options.largest_piece = 8;
    options.waste_part = 8;
    allocator_.settings().SetOptions(options);
  }

  struct Live {
    Bytes size;
    Bytes requested;
    bool small;
  };

  int64_t Draw(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random_() % static_cast<uint64_t>(most - least + 1));
  }
  Stream DrawStream() { return Stream{static_cast<uint64_t>(Draw(1, 3))}; }

  void Allocate() {
    const Bytes requested(Draw(0, 2) == 0 ? Draw(1, MiB(1).count()) : Draw(1, MiB(12).count()));
    const absl::StatusOr<Allocation> made = allocator_.Allocate(requested, DrawStream());
    out_of_memory_ += absl::IsResourceExhausted(made.status()) ? 1 : 0;
    if (!made.ok()) return;
    const bool small = made->size <= kSmallLimit;
    live_[made->address] = {made->size, requested, small};
    blocks_.Add(small, 1);
    bytes_.Add(small, made->size.count());
    requested_.Add(small, requested.count());
  }
  std::map<Address, Live>::iterator DrawLive() { return std::next(live_.begin(), Draw(0, std::ssize(live_) - 1)); }
  void Free() {
    const auto block = DrawLive();
    ASSERT_EQ(allocator_.Free(block->first).value_or(Bytes(0)), block->second.size);
    blocks_.Take(block->second.small, 1);
    bytes_.Take(block->second.small, block->second.size.count());
    requested_.Take(block->second.small, block->second.requested.count());
    live_.erase(block);
  }
  // As the end of a program whose device works again.
  void GiveAllBack() {
    ASSERT_TRUE(device_.SetFaults(""));
    while (!live_.empty()) Free();
    EXPECT_TRUE(allocator_.Trim().ok());
    EXPECT_EQ(device_.used(), Bytes(0)) << "everything goes back";
    CompareAll();
  }
  void FailNow() {
    constexpr std::array kKinds = {"create", "map", "set_access", "unmap", "release", "malloc", "free", "event_record"};
    const char* const kind = kKinds[static_cast<size_t>(Draw(0, kKinds.size() - 1))];
    const char* const error = Draw(0, 1) == 0 ? "invalid_value" : "out_of_memory";
    faults_ += device_.faults();
    ASSERT_TRUE(device_.SetFaults(absl::StrCat(kind, "@", Draw(1, 4), Draw(0, 3) == 0 ? "+" : "", "=", error)));
  }
  void Step() {
    const int64_t choice = Draw(0, 99);
    if (GetParam().fails && Draw(0, 1) == 0) FailNow();
    if (choice < 3) return static_cast<void>(allocator_.Trim(Bytes(Draw(1, MiB(40).count()))));
    if (choice < 5) {
      static_cast<void>(allocator_.MarkUse());
      return static_cast<void>(allocator_.ReturnIdle(MiB(8)));
    }
    if (choice < 12) return device_.AdvanceTo(device_.now() + sim::Nanoseconds(30));
    if (choice < 20 && !live_.empty()) {
      const Stream stream = DrawStream();
      device_.MakeBusyUntil(stream, device_.now() + sim::Nanoseconds(Draw(1, 200)));
      EXPECT_TRUE(allocator_.RecordStream(DrawLive()->first, stream).ok());
      return;
    }
    if (choice < 60 || live_.empty()) return Allocate();
    Free();
  }

  // The figures that a snapshot says.
  struct Seen {
    PlainFigure segments, reserved, split, split_bytes, awaiting, awaiting_bytes, allocated, allocated_bytes, requested;
  };
  static Seen Look(const std::vector<SegmentView>& segments) {
    Seen seen;
    for (const SegmentView& segment : segments) {
      seen.segments.Add(segment.small, 1);
      seen.reserved.Add(segment.small, segment.size.count());
      for (const BlockView& block : segment.blocks) {
        if (block.state == BlockView::State::kAllocated) {
          seen.allocated.Add(segment.small, 1);
          seen.allocated_bytes.Add(segment.small, block.size.count());
          seen.requested.Add(segment.small, block.requested.count());
        } else if (block.state == BlockView::State::kAwaitingStreams) {
          seen.awaiting.Add(segment.small, 1);
          seen.awaiting_bytes.Add(segment.small, block.size.count());
        } else if (segment.blocks.size() > 1) {
          seen.split.Add(segment.small, 1);
          seen.split_bytes.Add(segment.small, block.size.count());
        }
      }
    }
    return seen;
  }

  void Compare(const char* what, const Counter& counted, int64_t is) {
    ++compared_;
    EXPECT_EQ(counted.current, is) << what;
    EXPECT_EQ(counted.allocated - counted.freed, counted.current) << what;
    EXPECT_GE(counted.peak, counted.current) << what;
  }
  void CompareWithTheProgram(const char* what, const Counter& counted, const Plain& plain, int64_t& peak) {
    peak = std::max(peak, plain.current);
    Compare(what, counted, plain.current);
    EXPECT_EQ(counted.allocated, plain.allocated) << what;
    EXPECT_EQ(counted.peak, peak) << what;
  }
  void CompareAll() {
    const Statistics statistics = allocator_.GetStatistics();
    Seen seen = Look(allocator_.inspect().Snapshot());
    for (const SizeGroup group : kGroups) {
      SCOPED_TRACE(testing::Message() << "size group " << static_cast<int>(group));
      std::array<int64_t, 3>& peaks = peaks_[static_cast<size_t>(group)];
      CompareWithTheProgram("blocks", statistics.allocation[group], blocks_[group], peaks[0]);
      CompareWithTheProgram("bytes", statistics.allocated_bytes[group], bytes_[group], peaks[1]);
      CompareWithTheProgram("requested", statistics.requested_bytes[group], requested_[group], peaks[2]);
      Compare("blocks seen", statistics.allocation[group], seen.allocated[group].current);
      Compare("bytes seen", statistics.allocated_bytes[group], seen.allocated_bytes[group].current);
      Compare("requested seen", statistics.requested_bytes[group], seen.requested[group].current);
      Compare("segments", statistics.segment[group], seen.segments[group].current);
      // A handle that a failed call has left over is held, and seen nowhere.
      const Counter& reserved = statistics.reserved_bytes[group];
      Compare("reserved", reserved, GetParam().fails ? reserved.current : seen.reserved[group].current);
      EXPECT_GE(reserved.current, seen.reserved[group].current);
      Compare("split", statistics.inactive_split[group], seen.split[group].current);
      Compare("split bytes", statistics.inactive_split_bytes[group], seen.split_bytes[group].current);
      Compare("active", statistics.active()[group], seen.allocated[group].current + seen.awaiting[group].current);
      Compare("active bytes", statistics.active_bytes()[group],
              seen.allocated_bytes[group].current + seen.awaiting_bytes[group].current);
    }
    EXPECT_EQ(statistics.num_ooms, out_of_memory_);
    EXPECT_EQ(allocator_.inspect().Held(), device_.used());
    EXPECT_EQ(statistics.reserved_bytes[SizeGroup::kAll].current, device_.used().count());
    CompareWithTheDevice(statistics);
    allocator_.inspect().CheckInvariants();
  }
  void CompareWithTheDevice(const Statistics& statistics) {
    if (GetParam().fails) return;
    EXPECT_EQ(statistics.num_driver_failures, 0);
    const auto calls = [this](CallKind kind) { return static_cast<int64_t>(device_.calls(kind)); };
    if (GetParam().virtual_memory) {
      EXPECT_EQ(statistics.num_device_alloc, calls(CallKind::kCreate));
      EXPECT_EQ(statistics.num_device_free, calls(CallKind::kRelease));
    } else {
      EXPECT_EQ(statistics.num_device_free, calls(CallKind::kFree));
      EXPECT_EQ(statistics.num_device_alloc - statistics.num_device_free, statistics.segment[SizeGroup::kAll].current);
    }
  }

  using CallKind = sim::CallKind;

  std::mt19937_64 random_{TestSeed()};
  sim::SimulatedDevice device_{{.memory = GetParam().memory, .virtual_memory = GetParam().virtual_memory}};
  AddressDirectory directory_;
  DeviceAllocator allocator_{device_, directory_, nullptr};
  std::map<Address, Live> live_;
  PlainFigure blocks_, bytes_, requested_;
  std::array<std::array<int64_t, 3>, 3> peaks_ = {};
  int64_t out_of_memory_ = 0;
  int64_t compared_ = 0;
  uint64_t faults_ = 0;
};

TEST_P(Books, AgreeWithTheSnapshotTheProgramAndTheDevice) {
  for (int operation = 0; operation < kOperations; ++operation) {
    SCOPED_TRACE(testing::Message() << "operation " << operation);
    Step();
    CompareAll();
    if (HasFailure()) break;
  }
  faults_ += device_.faults();
  GiveAllBack();
  std::cout << "COUNTS books, " << GetParam().name << ": " << kOperations << " operations, " << faults_
            << " failed calls, " << out_of_memory_ << " out of memory, " << compared_ << " figures compared, seed "
            << TestSeed() << "\n";
}

INSTANTIATE_TEST_SUITE_P(Settings, Books,
                         testing::Values(Setting{"handles", MiB(64), true, false},
                                         Setting{"segments", MiB(96), false, false},
                                         Setting{"handles_that_fail", MiB(64), true, true},
                                         Setting{"segments_that_fail", MiB(96), false, true},
                                         Setting{"sized_handles", MiB(128), true, false, true},
                                         Setting{"sized_handles_that_fail", MiB(128), true, true, true}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace frugal
