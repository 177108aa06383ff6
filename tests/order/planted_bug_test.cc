// A bug in stream order is found, wherever it is: on each way that memory takes from one use to the next, each event,
// query and wait is left out in turn.

#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "tests/order/ordered_program.h"

namespace frugal {
namespace {

constexpr Stream kMain{1};
constexpr Stream kSide{2};
constexpr Stream kThird{3};

// One way from a use to the next. `play` leaves streams busy, so that what is left out is missed, and uses
// all memory again at the end.
struct Path {
  const char* name;
  Bytes memory;
  bool virtual_memory;
  std::function<void(OrderedProgram&)> play;
  // How many of the bugs do no harm at most, and why.
  int64_t harmless = 0;
  const char* why = "";
};

// As many as half.
constexpr int64_t kHalf = -1;
constexpr const char* kWholeDevice = "the host waits for the whole device, whatever the events say";
constexpr const char* kHomeAndGone = "what goes home too early is given back behind a wait for the whole device";

// --- Blocks that other streams used.

void ReuseAfterAnotherStreamPassed(OrderedProgram& program) {
  const Address block = program.Allocate(MiB(8), kMain);
  program.UseOn(block, kSide, 100);
  program.Free(block);
  TakeAll(program, kMain);
}

void ReuseAfterSeveralStreamsPassed(OrderedProgram& program) {
  const Address block = program.Allocate(MiB(8), kMain);
  program.UseOn(block, kSide, 100);
  program.UseOn(block, kThird, 200);
  program.Free(block);
  program.Free(program.Allocate(MiB(8), kMain));
  program.AdvanceTo(100);
  program.Free(program.Allocate(MiB(8), kMain));
  program.AdvanceTo(150);
  TakeAll(program, kMain);
}

// The device is full, so the owner waits for the stream that used its block.
void ReuseBehindAWaitOfTheOwner(OrderedProgram& program) {
  const Address block = program.Allocate(MiB(64), kMain);
  program.UseOn(block, kSide, 100);
  program.Free(block);
  program.Allocate(MiB(64), kMain);
}

void ReuseOfSmallBlocksAfterAnotherStreamPassed(OrderedProgram& program) {
  std::vector<Address> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(program.Allocate(KiB(512), kMain));
  for (Address block : blocks) program.UseOn(block, kSide, 100);
  for (Address block : blocks) program.Free(block);
  for (int i = 0; i < 4; ++i) program.Allocate(KiB(512), kMain);
}

// No event can be recorded before the capture ends.
void ReuseAfterACapture(OrderedProgram& program) {
  const Address block = program.Allocate(MiB(8), kMain);
  program.UseOn(block, kSide, 100);
  program.BeginCapture(kSide);
  program.Free(block);
  program.Allocate(MiB(32), kMain);
  program.EndCapture(kSide);
  TakeAll(program, kMain);
}

// --- Pages that move.

// To another stream, once that of their last use has passed.
void MoveFromAStreamThatHasPassed(OrderedProgram& program) {
  const Address block = program.Allocate(MiB(48), kSide);
  program.MakeBusyUntil(kSide, 100);
  program.Free(block);
  program.Allocate(MiB(16), kMain);
  program.AdvanceTo(100);
  program.Allocate(MiB(48), kMain);
}

// At once, behind a wait of the stream that takes them.
void MoveBehindAStreamWait(OrderedProgram& program) {
  const Address block = program.Allocate(MiB(64), kSide);
  program.MakeBusyUntil(kSide, 100);
  program.Free(block);
  program.Allocate(MiB(64), kMain);
}

void MoveFromTwoStreamsBehindWaitsForBoth(OrderedProgram& program) {
  const Address first = program.Allocate(MiB(32), kSide);
  const Address second = program.Allocate(MiB(32), kThird);
  program.MakeBusyUntil(kSide, 100);
  program.MakeBusyUntil(kThird, 200);
  program.Free(first);
  program.Free(second);
  program.Allocate(MiB(64), kMain);
}

// The block awaits a third stream, so that nothing but the host can wait for it.
void MoveBehindAHostWait(OrderedProgram& program) {
  const Address block = program.Allocate(MiB(64), kSide);
  program.UseOn(block, kThird, 100);
  program.Free(block);
  program.Allocate(MiB(64), kMain);
}

// Pages that moved within their stream left views behind, which go when their addresses are wanted.
void MoveWithinAStreamOverStaleViews(OrderedProgram& program) {
  program.MakeBusyUntil(kMain, 100);
  std::minstd_rand random(1);
  std::vector<Address> blocks;
  for (int step = 0; step < 200; ++step) {
    if (const auto block = program.TryAllocate(kPageSize * static_cast<int64_t>(1 + random() % 5), kMain)) {
      blocks.push_back(*block);
    } else if (!blocks.empty()) {
      const auto freed = blocks.begin() + static_cast<std::ptrdiff_t>(random() % blocks.size());
      program.Free(*freed);
      blocks.erase(freed);
    }
  }
}

// --- Pages that are lent and go home.

// Two pages are the side stream's, on loan to the main one.
Address Lend(OrderedProgram& program) {
  const Address owned = program.Allocate(MiB(32), kSide);
  program.Allocate(MiB(28), kMain);
  program.Free(owned);
  return program.Allocate(MiB(32), kMain);
}

void GuestsGoHomeOnceTheirHostHasPassed(OrderedProgram& program) {
  const Address guests = Lend(program);
  program.MakeBusyUntil(kMain, 100);
  program.Free(guests);
  TakeAll(program, kSide);
}

void GuestsGoHomeBehindAStreamWait(OrderedProgram& program) {
  const Address guests = Lend(program);
  program.MakeBusyUntil(kMain, 100);
  program.Free(guests);
  program.Allocate(MiB(32), kSide);
}

// --- Memory that goes back to the device.

void TrimAfterTheHostHasWaited(OrderedProgram& program) {
  const Address block = program.Allocate(MiB(32), kMain);
  program.MakeBusyUntil(kMain, 100);
  program.Free(block);
  EXPECT_TRUE(program.allocator().Trim().ok());
}

void TrimOfABlockThatAwaitsAnotherStream(OrderedProgram& program) {
  const Address block = program.Allocate(MiB(32), kMain);
  program.UseOn(block, kSide, 100);
  program.Free(block);
  EXPECT_TRUE(program.allocator().Trim().ok());
}

void TrimOfPagesThatAnotherStreamStillSees(OrderedProgram& program) {
  const Address block = program.Allocate(MiB(64), kSide);
  program.MakeBusyUntil(kSide, 100);
  program.Free(block);
  const Address moved = program.Allocate(MiB(64), kMain);
  program.Free(moved);
  EXPECT_TRUE(program.allocator().Trim().ok());
}

void IdleMemoryGoesOnceItsStreamHasPassed(OrderedProgram& program) {
  const Address block = program.Allocate(MiB(32), kMain);
  program.MakeBusyUntil(kMain, 100);
  program.Free(block);
  EXPECT_TRUE(program.allocator().MarkUse().ok());
  EXPECT_TRUE(program.allocator().ReturnIdle(kUnlimited).ok());
  program.AdvanceTo(99);
  EXPECT_TRUE(program.allocator().ReturnIdle(kUnlimited).ok());
}

void IdlePagesGoOnceNobodySeesThem(OrderedProgram& program) {
  const Address block = program.Allocate(MiB(64), kSide);
  program.MakeBusyUntil(kSide, 100);
  program.Free(block);
  const Address moved = program.Allocate(MiB(64), kMain);
  program.MakeBusyUntil(kMain, 200);
  program.Free(moved);
  EXPECT_TRUE(program.allocator().MarkUse().ok());
  EXPECT_TRUE(program.allocator().ReturnIdle(kUnlimited).ok());
  program.AdvanceTo(150);
  EXPECT_TRUE(program.allocator().ReturnIdle(kUnlimited).ok());
}

// --- Segments, which do not move.

void SegmentsReuseAfterAnotherStreamPassed(OrderedProgram& program) {
  const Address block = program.Allocate(MiB(8), kMain);
  program.UseOn(block, kSide, 100);
  program.Free(block);
  TakeAll(program, kMain);
}

void SegmentsReuseBehindAWaitOfTheOwner(OrderedProgram& program) {
  const Address block = program.Allocate(MiB(60), kMain);
  program.UseOn(block, kSide, 100);
  program.Free(block);
  program.Allocate(MiB(60), kMain);
}

const Path kPaths[] = {
    {"a block after another stream", MiB(64), true, ReuseAfterAnotherStreamPassed},
    {"a block after several streams", MiB(64), true, ReuseAfterSeveralStreamsPassed},
    {"a block behind a wait of its owner", MiB(64), true, ReuseBehindAWaitOfTheOwner},
    {"a block after a capture", MiB(64), true, ReuseAfterACapture},
    {"small blocks after another stream", MiB(2), true, ReuseOfSmallBlocksAfterAnotherStreamPassed, 2,
     "the last event of the stream covers those of the blocks before"},
    {"pages of a stream that has passed", MiB(64), true, MoveFromAStreamThatHasPassed},
    {"pages behind a stream wait", MiB(64), true, MoveBehindAStreamWait},
    {"pages of two streams behind waits", MiB(64), true, MoveFromTwoStreamsBehindWaitsForBoth},
    {"pages behind a host wait", MiB(64), true, MoveBehindAHostWait, 1, kWholeDevice},
    {"pages within a stream, over stale views", MiB(16), true, MoveWithinAStreamOverStaleViews, kHalf,
     "another view of the same place may not go, or the answer is asked for again before it goes"},
    {"guests whose host has passed", MiB(64), true, GuestsGoHomeOnceTheirHostHasPassed},
    {"guests behind a stream wait", MiB(64), true, GuestsGoHomeBehindAStreamWait, 1,
     "an earlier event of the host covers the same work"},
    {"trim of one stream's memory", MiB(64), true, TrimAfterTheHostHasWaited, 1, kWholeDevice},
    {"trim of a block that awaits a stream", MiB(64), true, TrimOfABlockThatAwaitsAnotherStream, 2, kWholeDevice},
    {"trim of pages that another stream sees", MiB(64), true, TrimOfPagesThatAnotherStreamStillSees, 4, kHomeAndGone},
    {"idle memory", MiB(64), true, IdleMemoryGoesOnceItsStreamHasPassed},
    {"idle pages that another stream sees", MiB(64), true, IdlePagesGoOnceNobodySeesThem, 4,
     "the mark ends a tick without any use, what goes home too early stays until its views are done, and a stream that "
     "is slow between two marks is asked only whether to wait for it longer"},
    {"segments after another stream", MiB(64), false, SegmentsReuseAfterAnotherStreamPassed},
    {"segments behind a wait of the owner", MiB(64), false, SegmentsReuseBehindAWaitOfTheOwner},
};

void PrintTo(const Path& path, std::ostream* out) { *out << path.name; }

// With which views are overwritten where there are pages that were never mapped, too.
PolicyOptions SmallHandles() {
  PolicyOptions options;
  options.unmap_weight = 0;
  return options;
}

// Memory in handles of several pages, as a device of 4,000 times the memory has them.
PolicyOptions LargeHandles() {
  PolicyOptions options = SmallHandles();
  options.request_part = 1;
  options.piece_part = 4;
  return options;
}

class PlantedBug : public testing::TestWithParam<Path> {
 protected:
  static void LeaveOutEachInTurn(const Path& path, const PolicyOptions& policy);
};

// What is not noticed is harmless by the log of all that happened: HasViolations() compares the two.
void PlantedBug::LeaveOutEachInTurn(const Path& path, const PolicyOptions& policy) {
  const OrderedProgram::Options options{path.memory, path.virtual_memory, policy};
  OrderedProgram honest(options);
  path.play(honest);
  EXPECT_FALSE(honest.HasViolations()) << path.name << ", without a bug:\n" << honest.report();
  int64_t planted = 0;
  int64_t unnoticed = 0;
  int64_t found_late = 0;
  for (const Lie lie : kLies) {
    for (int64_t n = 1;; ++n) {
      OrderedProgram program(options);
      program.lying().PlanLie(lie, n);
      path.play(program);
      if (!program.lying().has_lied()) break;
      ++planted;
      const std::string report = program.report();
      absl::PrintF("%s, %s (%d): %d violations, first: %s\n", path.name, NameOf(lie), n, program.violations(),
                   report.substr(0, report.find('\n')));
      if (!program.HasViolations()) {
        ++unnoticed;
        absl::PrintF("  harmless: %s\n", NameOf(program.lying().Excuse()));
      }
      if (program.FaultsOfLateWork() > 0) ++found_late;
    }
  }
  absl::PrintF(
      "%s: %d bugs planted, %d found, %d harmless, %d found by late work, too; without one %d accesses checked, %d "
      "handles of several pages\n",
      path.name, planted, planted - unnoticed, unnoticed, found_late, honest.accesses(), honest.large().created);
  EXPECT_LE(unnoticed, path.harmless == kHalf ? planted / 2 : path.harmless)
      << path.name << ": harmless are those where " << path.why;
  EXPECT_GT(planted - unnoticed, 0) << path.name << " needs no order";
}

TEST_P(PlantedBug, IsReportedWhereverItIs) { LeaveOutEachInTurn(GetParam(), SmallHandles()); }

TEST_P(PlantedBug, IsReportedWhereMemoryIsInHandlesOfSeveralPages) { LeaveOutEachInTurn(GetParam(), LargeHandles()); }

// The second witness, where memory goes away: work that runs finds it gone.
TEST(LateWork, FindsThatItsMemoryWasUnmappedTooEarly) {
  for (const Lie lie : kLies) {
    OrderedProgram program({MiB(64), true});
    program.lying().PlanLie(lie, 1);
    IdleMemoryGoesOnceItsStreamHasPassed(program);
    EXPECT_EQ(program.FaultsOfLateWork() > 0, program.lying().has_lied()) << NameOf(lie);
    EXPECT_EQ(program.HasViolations(), program.lying().has_lied()) << NameOf(lie);
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, PlantedBug, testing::ValuesIn(kPaths),
                         [](const auto& info) { return "Path" + std::to_string(info.index); });

}  // namespace
}  // namespace frugal
