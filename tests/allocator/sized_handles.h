// A DeviceAllocator whose handles are of several pages on a small simulated GPU, whatever the usual constants are.

#pragma once

#include <cstdint>
#include <vector>

#include "tests/allocator/allocator_fixture.h"
#include "tests/devices/handle_log.h"

namespace frugal {

class SizedHandlesTest : public AllocatorBehind<HandleLog> {
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
      : AllocatorBehind(Pages(pages).bytes()) {
    allocator_->settings().SetOptions(options);
  }

  Address AllocatePages(int64_t pages, Stream stream = kMain) { return Allocate(Pages(pages).bytes(), stream); }
  // One page each, so that the device has none left.
  void FillUp(Stream stream = kMain) {
    while (device_.used() < device_.machine().configuration().memory) AllocatePages(1, stream);
    between_.TakeCreated();
  }
  uint64_t memory_calls() const {
    return calls(CallKind::kCreate) + calls(CallKind::kMap) + calls(CallKind::kSetAccess) + calls(CallKind::kUnmap) +
           calls(CallKind::kRelease);
  }
};

}  // namespace frugal
