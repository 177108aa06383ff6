// New memory comes before remapping, as long as it is worth its price.

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "tests/allocator/sized_handles.h"

namespace frugal {
namespace {

// Sixteen pages are held, all of which were in use; every second one is free, and no two of these lie side by side. A
// request of eight takes eight pages of new memory, which then are beyond the most that was ever in use.
class Growth : public SizedHandlesTest {
 protected:
  static PolicyOptions HalfOfWhatIsLeft() {
    PolicyOptions options = Options();
    options.waste_part = 2;
    options.use_part = 1;
    options.request_part = 1;
    options.piece_part = 1'000'000;
    return options;
  }
  // On a device of so many pages.
  explicit Growth(int64_t pages = 40) : SizedHandlesTest(pages, HalfOfWhatIsLeft()) {
    std::vector<Address> blocks;
    for (int i = 0; i < 16; ++i) blocks.push_back(AllocatePages(1));
    for (size_t i = 0; i < blocks.size(); i += 2) Free(blocks[i]);
    device_.ResetCounters();
  }
};

struct Price {
  std::string name;
  int64_t pages;  // of the device
  bool is_grown;
  std::function<void(DeviceAllocator&)> set = [](DeviceAllocator&) {};
  friend void PrintTo(const Price& price, std::ostream* stream) { *stream << price.name; }
};

class PriceOfGrowth : public Growth, public testing::WithParamInterface<Price> {
 protected:
  // Sixteen pages were in use at most, and then the eight of the request beside the eight that are.
  static void SetUsePart(DeviceAllocator& allocator, int64_t part) {
    PolicyOptions options = HalfOfWhatIsLeft();
    options.largest_piece = 1;
    options.use_part = part;
    allocator.settings().SetOptions(options);
  }

 public:
  PriceOfGrowth() : Growth(GetParam().pages) { GetParam().set(*allocator_); }

  // Of 40 pages 16 are left after the growth: half of that is what may be beyond.
  static std::vector<Price> All() {
    return {
        {"up_to_the_part_of_what_is_left", 40, true},
        {"beyond_it_on_a_page_less", 39, false},
        {"beyond_it_beside_the_drivers_reserve", 40, false,
         [](DeviceAllocator& allocator) { allocator.settings().SetDriverReserve(kPageSize); }},
        {"beyond_it_below_a_limit", 40, false,
         [](DeviceAllocator& allocator) { allocator.settings().limit().Set(kPageSize * 39); }},
        {"beyond_it_below_a_limit_of_which_others_hold_some", 40, false,
         [](DeviceAllocator& allocator) {
           allocator.settings().limit().Set(kPageSize * 40);
           EXPECT_TRUE(allocator.settings().limit().Take(kPageSize));
         }},
        {"beyond_a_third_of_what_is_used_which_is_five", 1000, false,
         [](DeviceAllocator& allocator) { SetUsePart(allocator, 3); }},
        {"up_to_half_of_what_is_used", 1000, true, [](DeviceAllocator& allocator) { SetUsePart(allocator, 2); }},
        {"up_to_half_of_what_was_used_before_peaks_were_reset", 1000, true,
         [](DeviceAllocator& allocator) {
           SetUsePart(allocator, 2);
           allocator.ResetPeakStatistics();
         }},
    };
  }
};

TEST_P(PriceOfGrowth, DecidesWhetherNewMemoryIsTaken) {
  AllocatePages(8);
  EXPECT_EQ(statistics().num_stitches, GetParam().is_grown ? 0 : 1);
  EXPECT_EQ(calls(CallKind::kCreate), GetParam().is_grown ? 8u : 0u);
}

INSTANTIATE_TEST_SUITE_P(Prices, PriceOfGrowth, testing::ValuesIn(PriceOfGrowth::All()),
                         [](const auto& info) { return info.param.name; });

class AmpleGrowth : public Growth {
 protected:
  AmpleGrowth() : Growth(1000) {}
};

TEST_F(AmpleGrowth, ServesEveryRequestWithoutAStitch) {
  for (int round = 0; round < 5; ++round) {
    std::vector<Address> blocks;
    for (int i = 0; i < 10; ++i) blocks.push_back(AllocatePages(2));
    for (size_t i = 0; i < blocks.size(); i += 2) Free(blocks[i]);
    const Address joined = AllocatePages(3 + round);
    for (size_t i = 1; i < blocks.size(); i += 2) Free(blocks[i]);
    Free(joined);
  }
  EXPECT_EQ(statistics().num_stitches, 0);
  EXPECT_EQ(calls(CallKind::kUnmap), 0u);
}

class GrowthOnAPageLess : public Growth {
 protected:
  GrowthOnAPageLess() : Growth(39) {}
};

// What can still be seen where the same request was served before takes no driver call, which no new memory does.
TEST_F(GrowthOnAPageLess, ComesAfterAStitchThatTakesNoDriverCall) {
  Free(AllocatePages(8));
  PolicyOptions any_price = Options();
  any_price.waste_part = 1;
  allocator_->settings().SetOptions(any_price);
  device_.ResetCounters();
  AllocatePages(8);
  EXPECT_EQ(driver_time(), 0);
  EXPECT_EQ(statistics().num_stitches, 2);
}

}  // namespace
}  // namespace frugal
