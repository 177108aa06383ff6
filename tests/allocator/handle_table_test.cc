#include "allocator/stitching/handle_table.h"

#include <vector>

#include "allocator/blocks/arena_set.h"
#include "tests/allocator/allocator_fixture.h"
#include "tests/allocator/held_locks.h"
#include "tests/devices/handle_log.h"

namespace frugal {
namespace {

class HandleTableTest : public AllocatorTest {
 protected:
  HandleTableTest() : extent_(NewExtent()) {}
  ~HandleTableTest() override {
    EXPECT_TRUE(device_.SetFaults(""));
    EXPECT_TRUE(table_.ReleaseAll().ok());
    EXPECT_EQ(device_.used(), Bytes(0));
  }

  Extent& NewExtent() {
    const absl::StatusOr<Address> start = device_.Reserve(kPageSize * 32);
    EXPECT_TRUE(start.ok());
    return arenas_.Get(kMain, SizeClass::kLarge).AddExtent(Extent::Kind::kMovable, *start, kPageSize * 32);
  }
  Handle* Create(int64_t pages) {
    limit_.TakeAnyway(Pages(pages).bytes());
    Reservation promised(limit_, Pages(pages).bytes());
    absl::StatusOr<Handle*> handle = table_.Create(pages, SizeGroup::kLarge, promised);
    EXPECT_TRUE(handle.ok()) << handle.status();
    return *handle;
  }
  // Live at the page, where it can be used.
  Handle* Place(int64_t pages, int64_t page) {
    Handle* handle = Create(pages);
    MapAt(handle, page);
    table_.Move(handle, {&extent_, page});
    table_.Settle(handle);
    return handle;
  }
  void MapAt(Handle* handle, int64_t page) {
    ASSERT_TRUE(table_.MapAt(handle, {&extent_, page}).ok());
    ASSERT_TRUE(table_.OpenRun(RunOf(*handle, {&extent_, page})).ok());
  }
  View::State StateAt(int64_t page) const { return extent_.pages().view(page).state; }
  Pages SparePages() const {
    Pages pages;
    for (const Handle* spare : table_.spares()) pages += Pages(spare->pages);
    return pages;
  }
  Pages LackingFor(const std::vector<int64_t>& sizes) const {
    std::vector<Piece> pieces;
    for (int64_t pages : sizes) pieces.push_back({pages, nullptr});
    return table_.LackingFor(pieces);
  }

  Ledger ledger_;
  HeldLocks locks_;
  StreamClocks clocks_{device_, ledger_, nullptr, locks_.lock()};
  ArenaSet arenas_{clocks_, ledger_};
  SharedLimit limit_;
  HandleTable table_{device_, clocks_, ledger_, limit_, locks_.lock()};
  Extent& extent_;
};

TEST_F(HandleTableTest, LacksWhatNoSpareOfTheSameSizeCanStandFor) {
  EXPECT_EQ(LackingFor({4, 1}), Pages(5));
  for (Handle* handle : {Create(4), Create(1), Create(1)}) table_.Keep(handle);
  EXPECT_EQ(LackingFor({4, 1, 1}), Pages(0));
  EXPECT_EQ(LackingFor({1, 1, 1}), Pages(1)) << "the large one is no page";
  EXPECT_EQ(LackingFor({4, 4}), Pages(4)) << "each stands for one";
  EXPECT_EQ(LackingFor({2}), Pages(2));
  EXPECT_EQ(SparePages(), Pages(6));
}

TEST_F(HandleTableTest, LacksNothingForHandlesThatExist) {
  Handle* handle = Create(4);
  EXPECT_EQ(table_.LackingFor({{4, handle}}), Pages(0));
  table_.Keep(handle);
}

TEST_F(HandleTableTest, TakesASpareOfTheRightSizeBeforeTheDeviceIsAsked) {
  Handle* const large = Create(4);
  table_.Keep(large);
  EXPECT_NE(Create(2), large);
  EXPECT_EQ(Create(4), large);
  EXPECT_EQ(table_.held(), Pages(6));
  EXPECT_EQ(calls(CallKind::kCreate), 2u);
}

TEST_F(HandleTableTest, UnmapsAViewWholeOfWhichOnlyAPartIsInTheRun) {
  Place(4, 0);
  Place(4, 4);
  int64_t unmapped = 0;
  ASSERT_TRUE(table_.UnmapRun({&extent_, 2, 3}, &unmapped).ok());
  EXPECT_EQ(unmapped, 8);
  for (int64_t page = 0; page < 8; ++page) EXPECT_EQ(StateAt(page), View::State::kNone) << "page " << page;
}

TEST_F(HandleTableTest, UnmapsWhatTheRunHasBeforeTheCallThatFailed) {
  for (int64_t page : {0, 4, 8}) Place(4, page);
  ASSERT_TRUE(device_.SetFaults("unmap@2=invalid_value"));
  int64_t unmapped = 0;
  EXPECT_FALSE(table_.UnmapRun({&extent_, 0, 12}, &unmapped).ok());
  EXPECT_EQ(unmapped, 4);
  EXPECT_EQ(StateAt(3), View::State::kNone);
  for (int64_t page = 4; page < 12; ++page) EXPECT_EQ(StateAt(page), View::State::kLive) << "page " << page;
}

TEST_F(HandleTableTest, ShowsEachPageOfAHandleAsItsOwnPart) {
  Handle* const handle = Place(4, 8);
  for (int32_t part = 0; part < 4; ++part) {
    EXPECT_EQ(extent_.pages().view(8 + part).handle, handle);
    EXPECT_EQ(extent_.pages().view(8 + part).part, part);
    EXPECT_EQ(StartOfView({&extent_, 8 + part}), (PageRef{&extent_, 8}));
    EXPECT_EQ(IsSeenAt(*handle, {&extent_, 8 + part}), part == 0) << "to be taken from its first page on only";
  }
}

TEST_F(HandleTableTest, LeavesAViewBehindAtEachPageThatAHandleMovesFrom) {
  Handle* const handle = Place(4, 0);
  MapAt(handle, 8);
  const StreamClocks::Era era = clocks_.era();
  table_.Move(handle, {&extent_, 8});
  for (int64_t page = 0; page < 4; ++page) {
    EXPECT_EQ(StateAt(page), View::State::kStale);
    EXPECT_EQ(extent_.pages().view(page).left_in, era);
    EXPECT_TRUE(IsKept(extent_, page)) << "its home";
    EXPECT_EQ(StateAt(page + 8), View::State::kLive);
  }
  EXPECT_EQ(extent_.pages().guests(), 1) << "one handle, whatever its pages";
  table_.Settle(handle);
  EXPECT_EQ(extent_.pages().guests(), 0);
  EXPECT_FALSE(IsKept(extent_, 1));
}

TEST_F(HandleTableTest, KeepsAHandleThatCanStillBeSeenAsASpare) {
  Handle* const handle = Create(2);
  MapAt(handle, 4);
  EXPECT_FALSE(table_.Release(handle).ok());
  EXPECT_EQ(SparePages(), Pages(2));
  EXPECT_EQ(calls(CallKind::kRelease), 0u);
  ASSERT_TRUE(table_.UnmapRun({&extent_, 5, 1}).ok());
  ASSERT_EQ(table_.TakeSpares(), std::vector{handle});
  EXPECT_TRUE(table_.Release(handle).ok());
  EXPECT_EQ(table_.held(), Pages(0));
}

}  // namespace
}  // namespace frugal
