// What is free beside blocks in use, and how much that can be.

#include "allocator/stitching/unusable.h"

#include "tests/allocator/allocator_fixture.h"

namespace frugal {
namespace {

class Unusable : public AllocatorTest {
 protected:
  Unusable() : AllocatorTest(GiB(4)) {}

  Bytes unusable() const {
    Bytes bytes;
    for (const SegmentView& segment : allocator_->inspect().Snapshot()) bytes += segment.unusable;
    return bytes;
  }
};

TEST_F(Unusable, IsTwoHandlesForEachSmallBlockThatStaysWhateverCameBefore) {
  const Address large = Allocate(GiB(2));
  Free(large);
  std::vector<Address> fill;
  for (int i = 0; i < 300; ++i) {
    fill.push_back(Allocate(MiB(2) + KiB(4)));
    Allocate(MiB(1) + KiB(4));
  }
  for (Address block : fill) Free(block);
  EXPECT_GT(unusable(), Bytes(0));
  EXPECT_LE(unusable(), MiB(16) * 2 * 300);
  const Bytes in_use = (MiB(1) + KiB(4)) * 300;
  EXPECT_TRUE(allocator_->Allocate(GiB(4) - in_use - unusable(), kMain).ok()) << "all else is for a large one";
}

}  // namespace
}  // namespace frugal
