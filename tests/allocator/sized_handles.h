// A DeviceAllocator whose handles are of several pages on a small simulated GPU, whatever the usual constants are.

#ifndef FRUGAL_TESTS_ALLOCATOR_SIZED_HANDLES_H_
#define FRUGAL_TESTS_ALLOCATOR_SIZED_HANDLES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "tests/allocator/allocator_fixture.h"
#include "tests/devices/handle_log.h"

namespace frugal {

class SizedHandlesTest : public AllocatorTest {
 protected:
  // New handles are a quarter of what is left, of eight pages at most.
  static PolicyOptions Options() {
    PolicyOptions options;
    options.request_part = 1;
    options.piece_part = 4;
    options.largest_piece = 8;
    options.waste_part = 32;
    return options;
  }

  explicit SizedHandlesTest(int64_t pages = 64, PolicyOptions options = Options())
      : AllocatorTest(Pages(pages).bytes()) {
    allocator_ = std::make_unique<DeviceAllocator>(log_, directory_, nullptr);
    allocator_->settings().SetOptions(options);
  }
  // Before its device.
  ~SizedHandlesTest() override { allocator_.reset(); }

  Address AllocatePages(int64_t pages, Stream stream = kMain) { return Allocate(Pages(pages).bytes(), stream); }
  // One page each, so that the device has none left.
  void FillUp(Stream stream = kMain) {
    while (device_.used() < device_.machine().configuration().memory) AllocatePages(1, stream);
    log_.TakeCreated();
  }
  Bytes Trim(Bytes enough = kUnlimited) {
    absl::StatusOr<Bytes> returned = allocator_->Trim(enough);
    EXPECT_TRUE(returned.ok()) << returned.status();
    allocator_->inspect().CheckInvariants();
    return returned.value_or(Bytes(-1));
  }
  uint64_t memory_calls() const {
    return calls(CallKind::kCreate) + calls(CallKind::kMap) + calls(CallKind::kSetAccess) + calls(CallKind::kUnmap) +
           calls(CallKind::kRelease);
  }

  HandleLog log_{device_};
};

}  // namespace frugal

#endif  // FRUGAL_TESTS_ALLOCATOR_SIZED_HANDLES_H_
