// Whatever a program does, no byte is handed on before its last use is ordered.

#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <random>

#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "tests/environment.h"
#include "tests/order/ordered_program.h"

namespace frugal {
namespace {

constexpr int64_t kPrograms = 600;
constexpr int64_t kSteps = 1000;
constexpr int64_t kLyingSteps = 400;
constexpr auto kPage = static_cast<uint64_t>(kPageSize.count());

// Several streams that are busy most of the time share a device that is too small for all that they want: memory moves
// on every way that there is. The same for the same seed.
class RandomProgram {
 public:
  explicit RandomProgram(uint64_t seed) : random_(seed), streams_(Draw(1, 5)), program_(DrawOptions(seed)) {}

  void Play(int64_t steps) {
    for (int64_t step = 0; step < steps; ++step) Step();
  }
  // Plays up to `steps` steps, no more than a few after the device has lied, then uses all memory in as many ways as it
  // takes for what is wrong to be seen.
  void PlayUntilLie(int64_t steps) {
    for (int64_t step = 0; step < steps && !program_.lying().has_lied(); ++step) Step();
    for (int64_t step = Draw(0, 10); step > 0; --step) Step();
    // What is free already first: to take more, streams wait for each other.
    TakeWhatIsFree(program_);
    const int64_t first = Draw(0, streams_ - 1);
    for (int64_t i = 0; i < streams_; ++i) TakeAll(program_, Stream{static_cast<uint64_t>((first + i) % streams_)});
    EXPECT_TRUE(program_.allocator().Trim().ok());
  }
  OrderedProgram& program() { return program_; }

 private:
  int64_t Draw(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  Stream DrawStream() { return Stream{static_cast<uint64_t>(Draw(0, streams_ - 1))}; }
  // One in four has no virtual memory. Two of the others have handles of several pages, which devices so small have
  // only with another policy than the usual one: one grows while it can, the other remaps first.
  OrderedProgram::Options DrawOptions(uint64_t seed) {
    OrderedProgram::Options options{.memory = kPageSize * Draw(8, 40), .virtual_memory = seed % 4 != 3};
    if (seed % 4 == 0 || seed % 4 == 3) return options;
    options.policy.waste_part = seed % 4 == 1 ? 1 : 32;
    options.policy.request_part = 1;
    options.policy.piece_part = Draw(1, 4);
    return options;
  }
  Bytes DrawSize() { return Draw(0, 2) == 0 ? Bytes(Draw(1, 1'200'000)) : Bytes(Draw(1, 12'000'000)); }
  Address DrawBlock() { return std::next(program_.live().begin(), Draw(0, std::ssize(program_.live()) - 1))->first; }
  void Step() {
    // Slower than the streams get work, so that they are behind.
    program_.AdvanceTo(program_.now() + Draw(0, 20));
    // Captures are short: streams that are captured wait for nobody, and nobody waits for them.
    if (captured_.has_value() && Draw(0, 9) == 0) EndCapture();
    const int64_t choice = Draw(0, 999);
    if (choice < 100) {
      program_.MakeBusyUntil(DrawStream(), program_.now() + Draw(0, 400));
    } else if (choice < 105) {
      BeginCapture(DrawStream());
    } else if (program_.live().empty() || choice < 550) {
      static_cast<void>(program_.TryAllocate(DrawSize(), DrawStream()));
    } else if (choice < 650) {
      const Address block = DrawBlock();
      const Stream user = DrawStream();
      const Stream owner = program_.allocator().inspect().StreamsOf(block).front();
      if (captured_ == user || captured_ == owner) return;
      program_.UseOn(block, user, program_.now() + Draw(0, 400));
    } else if (choice < 980) {
      program_.Free(DrawBlock());
    } else if (choice < 985) {
      const auto third = static_cast<uint64_t>(Draw(0, 2));
      program_.SleepAndWake([=](Address address, uint8_t) { return address.value() % kPage / 512 % 3 == third; },
                            DrawStream());
    } else {
      GiveBackMemory();
    }
  }
  void BeginCapture(Stream stream) {
    if (captured_.has_value()) return;
    captured_ = stream;
    program_.BeginCapture(stream);
  }
  void EndCapture() {
    program_.EndCapture(*captured_);
    captured_.reset();
  }
  void GiveBackMemory() {
    switch (Draw(0, 2)) {
      case 0:
        EXPECT_TRUE(program_.allocator().Trim(kPageSize * Draw(1, 40)).ok());
        break;
      case 1:
        EXPECT_TRUE(program_.allocator().MarkUse().ok());
        break;
      default:
        EXPECT_TRUE(program_.allocator().ReturnIdle(kPageSize * Draw(1, 40)).ok());
    }
  }

  std::mt19937_64 random_;
  const int64_t streams_;
  std::optional<Stream> captured_;
  OrderedProgram program_;
};

uint64_t Programs() { return static_cast<uint64_t>(FromEnvironment("FRUGAL_ORDER_PROGRAMS", kPrograms / kSlowdown)); }

TEST(RandomOrder, NoByteIsReusedBeforeItsLastUseIsOrdered) {
  const uint64_t first = TestSeed();
  const uint64_t past = first + Programs();
  uint64_t accesses = 0;
  Statistics sum;
  LoggedDevice::LargeHandles large;
  for (uint64_t seed = first; seed < past && !testing::Test::HasFailure(); ++seed) {
    RandomProgram random(seed);
    random.Play(kSteps);
    EXPECT_FALSE(random.program().HasViolations()) << "seed " << seed << "\n" << random.program().report();
    accesses += random.program().accesses();
    const Statistics statistics = random.program().allocator().GetStatistics();
    sum.num_stitches += statistics.num_stitches;
    sum.num_stream_waits += statistics.num_stream_waits;
    sum.num_sync_all_streams += statistics.num_sync_all_streams;
    large.created += random.program().large().created;
    large.mapped_again += random.program().large().mapped_again;
    large.released += random.program().large().released;
  }
  absl::PrintF(
      "%d programs (seeds %d to %d) of %d steps: %d accesses checked, %d stitches, %d stream waits, %d times the host "
      "waited; of handles of several pages %d created, %d mapped again, %d given up\n",
      past - first, first, past - 1, kSteps, accesses, sum.num_stitches, sum.num_stream_waits, sum.num_sync_all_streams,
      large.created, large.mapped_again, large.released);
  EXPECT_GT(sum.num_stitches, 0);
  EXPECT_GT(sum.num_stream_waits, 0);
  EXPECT_GT(sum.num_sync_all_streams, 0);
  EXPECT_GT(large.created, 0);
  EXPECT_GT(large.mapped_again, 0);
  EXPECT_GT(large.released, 0);
}

// One query, wait or record is left out of each program. Whether that does harm is worked out from the log of all that
// happened, in which nothing is forgotten. Half of the programs end soon after, the others go on.
class RandomLies : public testing::TestWithParam<Lie> {};

TEST_P(RandomLies, AreReportedIfAndOnlyIfTheyLeaveAUseUnordered) {
  const uint64_t first = TestSeed();
  const uint64_t past = first + Programs() / 10;
  int64_t told = 0;
  int64_t harmful = 0;
  std::map<WorkLog::Excuse, int64_t> harmless;
  for (uint64_t seed = first; seed < past && !HasFailure(); ++seed) {
    for (int64_t n = 1; n < 40; n += 3) {
      RandomProgram random(seed);
      OrderedProgram& program = random.program();
      program.lying().PlanLie(GetParam(), n);
      if (n % 2 == 0) {
        random.Play(kLyingSteps);
      } else {
        random.PlayUntilLie(kLyingSteps);
      }
      if (!program.lying().has_lied()) break;
      ++told;
      if (program.HasViolations()) {
        ++harmful;
      } else {
        ++harmless[program.lying().Excuse()];
      }
      ASSERT_FALSE(HasFailure()) << "seed " << seed << ", lie " << n;
    }
  }
  absl::PrintF("%s: %d bugs planted in random programs (seeds %d to %d), %d left a use unordered, all found",
               NameOf(GetParam()), told, first, past - 1, harmful);
  for (const auto& [excuse, count] : harmless) absl::PrintF("; %d times %s", count, NameOf(excuse));
  absl::PrintF("\n");
  EXPECT_GT(harmful, 0);
}

INSTANTIATE_TEST_SUITE_P(Lies, RandomLies, testing::ValuesIn(kLies),
                         [](const auto& info) { return "Lie" + std::to_string(info.index); });

}  // namespace
}  // namespace frugal
