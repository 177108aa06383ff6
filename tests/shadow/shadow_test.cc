// A million random operations, the naive models beside them; see shadow_run.h for what is compared.

#include <cstdio>

#include "gtest/gtest.h"
#include "tests/environment.h"
#include "tests/shadow/campaign.h"

namespace frugal::shadow {
namespace {

#ifdef NDEBUG
constexpr int64_t kOperations = 250'000;
#else
// With assertions the allocator checks all its invariants itself, after each call, under a sanitizer.
constexpr int64_t kOperations = 25'000;
#endif

class Shadow : public testing::TestWithParam<int64_t> {};

TEST_P(Shadow, AgreesWithTheAllocatorOnRandomOperations) {
  const Campaign campaign{.first_seed = 1'000'000, .operations = kOperations, .operations_of_program = GetParam()};
  Campaign own = campaign;
  own.first_seed *= TestSeed();
  own.first_seed += static_cast<uint64_t>(GetParam()) * 100'000;
  const CampaignResult result = RunCampaign(own);
  std::printf("%s\n", ToText(own, result).c_str());
  EXPECT_EQ(result.failure, "");
  // A few programs need not come to everything.
  if (result.programs < 500 || own.operations < 100'000) return;
  EXPECT_GT(result.tally.stitches, 0);
  EXPECT_GT(result.tally.large.created, 0);
  EXPECT_GT(result.tally.large.moved, 0);
  EXPECT_GT(result.tally.large.released, 0);
  EXPECT_GT(result.tally.large.shared, 0);
  EXPECT_GT(result.tally.slept, 0);
  EXPECT_GT(result.tally.woken, 0);
}

// Short programs end in a check that everything can be given back; long ones get into states that short ones do not.
INSTANTIATE_TEST_SUITE_P(OfPrograms, Shadow, testing::Values(30, 300, 3000, 30'000), testing::PrintToStringParamName());

}  // namespace
}  // namespace frugal::shadow
