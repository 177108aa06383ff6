// Whatever a program does, no byte is handed on before its last use is ordered.

#include <cstdio>
#include <cstdlib>

#include "gtest/gtest.h"
#include "tests/order/random_program.h"

namespace frugal {
namespace {

constexpr uint64_t kSeeds = 600;
constexpr int64_t kSteps = 1000;

// FRUGAL_ORDER_PROGRAMS: how many random programs are played instead of kSeeds.
uint64_t Programs() {
  const char* text = std::getenv("FRUGAL_ORDER_PROGRAMS");
  return text == nullptr ? kSeeds : std::strtoull(text, nullptr, 10);
}

TEST(RandomOrder, NoByteIsReusedBeforeItsLastUseIsOrdered) {
  const uint64_t programs = Programs();
  uint64_t accesses = 0;
  Statistics sum;
  for (uint64_t seed = 0; seed < programs && !testing::Test::HasFailure(); ++seed) {
    RandomProgram random(seed);
    random.Play(kSteps);
    EXPECT_EQ(random.program().violations(), 0u) << "seed " << seed << "\n" << random.program().report();
    accesses += random.program().accesses();
    const Statistics statistics = random.program().allocator().GetStatistics();
    sum.num_stitches += statistics.num_stitches;
    sum.num_stream_waits += statistics.num_stream_waits;
    sum.num_sync_all_streams += statistics.num_sync_all_streams;
  }
  std::printf(
      "%llu programs (seeds 0 to %llu) of %lld steps: %llu accesses checked, %lld stitches, %lld stream waits, "
      "%lld times the host waited\n",
      static_cast<unsigned long long>(programs), static_cast<unsigned long long>(programs - 1),
      static_cast<long long>(kSteps), static_cast<unsigned long long>(accesses),
      static_cast<long long>(sum.num_stitches), static_cast<long long>(sum.num_stream_waits),
      static_cast<long long>(sum.num_sync_all_streams));
  EXPECT_GT(sum.num_stitches, 0);
  EXPECT_GT(sum.num_stream_waits, 0);
  EXPECT_GT(sum.num_sync_all_streams, 0);
}

// Not every one is found, since a lie does no harm where the memory is not used again before a later wait covers it.
TEST(RandomOrder, AWaitThatIsLeftOutSomewhereIsFound) {
  for (const Lie lie : kLies) {
    int64_t planted = 0;
    int64_t found = 0;
    for (uint64_t seed = 0; seed < 10; ++seed) {
      for (int64_t n = 1; n < 40; n += 3) {
        RandomProgram random(seed);
        random.program().lying().PlanLie(lie, n);
        random.Play(kSteps);
        if (!random.program().lying().has_lied()) break;
        ++planted;
        found += random.program().violations() > 0 ? 1 : 0;
      }
    }
    std::printf("%s: %lld planted in random programs, %lld found\n", std::string(NameOf(lie)).c_str(),
                static_cast<long long>(planted), static_cast<long long>(found));
    EXPECT_GT(planted, 0);
    EXPECT_GT(found * 10, planted) << NameOf(lie);
  }
}

}  // namespace
}  // namespace frugal
