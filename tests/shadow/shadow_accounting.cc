// A shadow run's accounting: what observers are told, the epochs of births, and the figures.

#include "absl/strings/str_format.h"
#include "tests/shadow/shadow_run.h"

namespace frugal::shadow {

void ShadowRun::OnMemoryEvent(const MemoryEvent& event) {
  if (event.kind == MemoryEvent::Kind::kFreeRequested && event.annotation == nullptr) {
    verdict_.Fail("a block lost its annotation");
  }
}

void ShadowRun::DropAnnotation(void* /*annotation*/) {
  if (--annotations_ < blocks_.count()) verdict_.Fail("an annotation was dropped too often");
}

void ShadowRun::EndEpoch(int64_t how) {
  records_births_ = true;
  allocator_->births().Start();
  if (how == 0) allocator_->births().EndEpoch();
  if (how == 1) allocator_->births().CollapseEpochs();
  if (how >= 2) allocator_->births().HalveEpochs();
  verdict_.Expect("bytes alive by the epochs' report", allocator_->births().Report().live.count(),
                  blocks_.bytes().count());
}

void ShadowRun::CheckStatistics() {
  const Statistics statistics = allocator_->GetStatistics();
  verdict_.Expect("bytes handed out", statistics.allocated_bytes[SizeGroup::kAll].current, blocks_.bytes().count());
  verdict_.Expect("blocks handed out", statistics.allocation[SizeGroup::kAll].current, blocks_.count());
  verdict_.Expect("bytes requested", statistics.requested_bytes[SizeGroup::kAll].current, blocks_.requested().count());
  verdict_.Expect("the peak of bytes handed out", statistics.allocated_bytes[SizeGroup::kAll].peak,
                  blocks_.peak().count());
  tally_.stitches = statistics.num_stitches;
  const int64_t held = memory_.held().count();
  const int64_t reserved = statistics.reserved_bytes[SizeGroup::kAll].current;
  verdict_.Expect("bytes that the device has given", device_.used().count(),
                  held + (kPageSize * std::ssize(cached_)).count());
  verdict_.Expect("bytes reserved", reserved, held);
  const int64_t active = statistics.active_bytes()[SizeGroup::kAll].current;
  if (active < blocks_.bytes().count() || active - Lacking().count() > reserved) {
    verdict_.Fail(absl::StrFormat("%d bytes are active, with %d handed out and %d reserved", active,
                                  blocks_.bytes().count(), reserved));
  }
}

}  // namespace frugal::shadow
