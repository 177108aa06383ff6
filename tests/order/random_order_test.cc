// Whatever a program does, no byte is handed on before its last use is ordered.

#include <map>
#include <string>

#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "tests/environment.h"
#include "tests/order/random_program.h"

namespace frugal {
namespace {

constexpr int64_t kPrograms = 600;
constexpr int64_t kSteps = 1000;
constexpr int64_t kLyingSteps = 400;

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
