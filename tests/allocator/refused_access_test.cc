// A view whose mapping could neither be opened for access nor undone is never used.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/allocator/sized_handles.h"

namespace frugal {
namespace {

// Where a request that was refused is made of handles of the same sizes at the same place, if it is made again.
class RefusedAccess : public SizedHandlesTest, public testing::WithParamInterface<const char*> {
 protected:
  static PolicyOptions AtAnyPrice() {
    PolicyOptions options = Options();
    options.waste_part = 1;
    return options;
  }
  RefusedAccess() : SizedHandlesTest(64, AtAnyPrice()) {}
};

TEST_P(RefusedAccess, LeavesNoBlockThatCannotBeUsed) {
  for (const char* error : {"invalid_value", "out_of_memory"}) {
    for (const char* unmaps : {"", ",unmap@1=", ",unmap@2=", ",unmap@3=", ",unmap@1+=", ",unmap@2+=", ",unmap@3+="}) {
      const std::string plan = absl::StrCat(GetParam(), error, unmaps, *unmaps == '\0' ? "" : error);
      SCOPED_TRACE(plan);
      ASSERT_TRUE(device_.SetFaults(plan));
      const absl::StatusOr<Allocation> first = allocator_->Allocate(kPageSize * 20, kMain);
      allocator_->inspect().CheckInvariants();
      EXPECT_TRUE(!first.ok() || between_.IsOpen(first->address, kPageSize * 20));
      ASSERT_TRUE(device_.SetFaults(""));
      const Address second = AllocatePages(20);
      EXPECT_TRUE(between_.IsOpen(second, kPageSize * 20));
      if (first.ok()) Free(first->address);
      Free(second);
      Trim();
      EXPECT_EQ(device_.used(), Bytes(0)) << "and nothing is lost";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Calls, RefusedAccess, testing::Values("set_access@1=", "set_access@1+=", "map@2=", "map@3="));

}  // namespace
}  // namespace frugal
