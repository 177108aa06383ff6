#include "allocator/stitching/stitch_places.h"

#include <vector>

#include "tests/allocator/filled_arenas.h"

namespace frugal {
namespace {

// An arena with two pages in use, a hole of ten, 2 to 11, then four free pages and a hole without end.
class StitchPlaces : public FilledArenas {
 protected:
  StitchPlaces() : arena_(NewArena(100)) {
    Fill(arena_, 0, 2);
    arena_.Take(kPageSize * 2);
    Fill(arena_, 12, 4);
  }

  Extent& extent() { return ExtentOf(arena_); }
  // The page is the home of a handle that is a guest where no block is: it waits for it.
  Handle& Keep(int64_t page) {
    Handle& guest = NewHandle(1, {&extent(), 90});
    guest.home = PageRef{&extent(), page};
    extent().pages().MutableView(page) = View{View::State::kStale, 0, &guest};
    return guest;
  }
  // Places of seven pages, which may grow by three.
  std::vector<StitchPlace> Find(int64_t most = 8, const Offers& offers = Offers()) const {
    return FindPlaces(arena_, kPageSize * 7, kPageSize * 10, offers, most);
  }
  PageRun Run(int64_t first, int64_t count) { return {&extent(), first, count}; }

  Arena& arena_;
};

TEST_F(StitchPlaces, AreEdgesOfHolesTheShortestFirst) {
  const std::vector<StitchPlace> places = Find();
  ASSERT_EQ(places.size(), 3u);
  EXPECT_EQ(places[0].run, Run(9, 3)) << "before the four free pages";
  EXPECT_EQ(places[0].growth, StitchPlace::Growth::kDown);
  EXPECT_EQ(places[1].run, Run(16, 3)) << "behind them";
  EXPECT_EQ(places[2].run, Run(2, 7));
  EXPECT_EQ(places[2].growth, StitchPlace::Growth::kUp);
}

TEST_F(StitchPlaces, MayGrowAsFarAsIsAskedForAndNoFurther) {
  const std::vector<StitchPlace> places = Find();
  EXPECT_EQ(places[0].room, Run(6, 6));
  EXPECT_EQ(places[1].room, Run(16, 6));
  EXPECT_EQ(places[2].room, Run(2, 10)) << "which is the whole hole";
}

TEST_F(StitchPlaces, GrowDownToAPageThatIsKept) {
  Keep(7);
  const std::vector<StitchPlace> places = Find();
  ASSERT_EQ(places.size(), 2u) << "the seven pages from 2 on have it among them";
  EXPECT_EQ(places[0].run, Run(9, 3));
  EXPECT_EQ(places[0].room, Run(8, 4));
}

TEST_F(StitchPlaces, GrowUpToAPageThatIsKept) {
  Keep(18);
  Keep(10);
  const std::vector<StitchPlace> places = Find();
  ASSERT_EQ(places.size(), 1u);
  EXPECT_EQ(places[0].run, Run(2, 7));
  EXPECT_EQ(places[0].room, Run(2, 8));
}

TEST_F(StitchPlaces, TakeAPageThatIsKeptForAHandleOnOffer) {
  Handle& guest = Keep(10);
  Fill(arena_, 90, 1);
  guest.place = PageRef{&extent(), 90};
  extent().pages().MutableView(90) = View{View::State::kLive, 0, &guest};
  const Offers offers(arenas_.all(), [](const Block&) { return true; });
  const std::vector<StitchPlace> places = Find(8, offers);
  ASSERT_GE(places.size(), 3u);
  EXPECT_EQ(places[0].room, Run(6, 6));
}

TEST_F(StitchPlaces, AreNoMoreThanAreAskedForOfThoseThatAreVacant) {
  Keep(10);
  const std::vector<StitchPlace> places = Find(1);
  ASSERT_EQ(places.size(), 1u);
  EXPECT_EQ(places[0].run, Run(16, 3)) << "the first is not";
}

}  // namespace
}  // namespace frugal
