// Programs as bytes and as text, and how they are made small.

#include <vector>

#include "gtest/gtest.h"
#include "tests/shadow/campaign.h"
#include "tests/shadow/shrinker.h"

namespace frugal::shadow {
namespace {

Program FromBytes(const std::vector<uint8_t>& bytes) {
  Choices choices(bytes);
  return RunDrawn(choices, 1000, CheckLevel::kFast).program;
}

TEST(Program, IsTheSameFromTheSameBytes) {
  std::vector<uint8_t> bytes;
  for (int i = 0; i < 500; ++i) bytes.push_back(static_cast<uint8_t>(i * 37 + i / 7));
  EXPECT_GT(FromBytes(bytes).operations.size(), 20U);
  EXPECT_EQ(FromBytes(bytes).operations, FromBytes(bytes).operations);
  // No byte is needed: the end of a fuzzer's input is the end of the program, never a refusal.
  EXPECT_TRUE(FromBytes({}).operations.empty());
}

TEST(Program, MeansTheSameWrittenAndRead) {
  size_t kinds = 0;
  std::vector<bool> seen(kPatterns.size());
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Choices choices(seed);
    const Mix mix = seed % 2 == 0 ? Mix::kTight : Mix::kPools;
    const Program program = RunDrawn(choices, 300, CheckLevel::kOff, mix).program;
    const absl::StatusOr<Program> read = ParseProgram(ToText(program));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->operations, program.operations);
    EXPECT_EQ(read->pages, program.pages);
    EXPECT_EQ(read->movable, program.movable);
    for (const Operation& operation : program.operations) seen[static_cast<size_t>(operation.kind)] = true;
  }
  for (bool kind : seen) kinds += kind;
  EXPECT_EQ(kinds, kPatterns.size()) << "every kind of operation is drawn";
}

TEST(Program, ThatCannotBeReadIsRefusedWithItsLine) {
  for (const char* text : {"", "allocate #1 5 least 0 on 1", "device 0 pages movable", "device 1 pages of gold"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseProgram(text).status())) << text;
  }
  for (const char* line : {"free 1", "free #1 #2", "allocate #1 -5 least 0 on 1", "work on 5 for 1", "work on 0 for 1",
                           "fail map 1 with love", "fail sleep 1 with unknown", "begin_capture", "Snapshot",
                           "option waste_part 0", "option taste 1", "pass 99999999999999999999"}) {
    const absl::Status refused = ParseProgram(std::string("device 1 pages movable\n# why\n") + line).status();
    EXPECT_NE(refused.message().find("line 3"), absl::string_view::npos) << line << ": " << refused;
  }
}

// Fails if block 7 of at least 3 pages is freed while stream 2 has work.
bool Fails(const Program& program) {
  bool has_work = false;
  bool is_large = false;
  for (const Operation& operation : program.operations) {
    if (operation.kind == OperationKind::kAllocate && operation.amount >= MiB(6).count()) is_large = true;
    if (operation.kind == OperationKind::kWork && operation.stream == 2) has_work = true;
    if (operation.kind == OperationKind::kFree && has_work && is_large) return true;
  }
  return false;
}

TEST(Shrinking, LeavesNothingThatIsNotNeeded) {
  Program program;
  for (uint32_t i = 1; i <= 50; ++i) {
    program.operations.push_back(
        {.kind = OperationKind::kAllocate, .stream = 3, .block = i, .amount = MiB(20).count() + 17});
    program.operations.push_back({.kind = OperationKind::kWork, .stream = 2, .amount = 400});
    program.operations.push_back({.kind = OperationKind::kFree, .block = i});
  }
  EXPECT_EQ(ToText(Shrink(program, Fails)),
            "device 1 pages movable\n"
            "allocate #1 6291456 least 0 on 1\n"
            "work on 2 for 0\n"
            "free #1\n");
}

TEST(Shrinking, KeepsWhatItHasWhenItMayNotTryMore) {
  Program program;
  for (uint32_t i = 1; i <= 50; ++i) program.operations.push_back({.kind = OperationKind::kSnapshot});
  int runs = 0;
  const auto always = [&runs](const Program&) { return ++runs > 0; };
  EXPECT_TRUE(Shrink(program, always, 3).operations.size() < 50);
  EXPECT_LE(runs, 4);
}

}  // namespace
}  // namespace frugal::shadow
