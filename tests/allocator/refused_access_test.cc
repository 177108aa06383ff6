// A view whose mapping could neither be opened for access nor undone is never used.

#include <string>

#include "absl/strings/str_format.h"
#include "tests/allocator/sized_handles.h"

namespace frugal {
namespace {

class RefusedAccess : public SizedHandlesTest {
 protected:
  void Refuse(const std::string& plan) { ASSERT_TRUE(device_.SetFaults(plan)); }
};

TEST_F(RefusedAccess, IsMadeUpForWhateverElseTheDriverRefuses) {
  for (const char* error : {"invalid_value", "out_of_memory"}) {
    for (int unmaps = 0; unmaps <= 4; ++unmaps) {
      std::string plan = absl::StrFormat("set_access@1=%s", error);
      for (int call = 1; call <= unmaps; ++call) plan += absl::StrFormat(",unmap@%d=%s", call, error);
      SCOPED_TRACE(plan);
      Refuse(plan);
      const absl::StatusOr<Allocation> refused = allocator_->Allocate(kPageSize * 20, kMain);
      allocator_->CheckInvariants();
      Refuse("");
      Address block = refused.ok() ? refused->address : AllocatePages(20);
      EXPECT_TRUE(log_.IsOpen(block, kPageSize * 20)) << "all of it can be used";
      Free(block);
      Trim();
      EXPECT_EQ(device_.used(), Bytes(0));
    }
  }
}

}  // namespace
}  // namespace frugal
