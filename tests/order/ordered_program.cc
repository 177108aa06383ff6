#include "tests/order/ordered_program.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"

namespace frugal {

OrderedProgram::OrderedProgram(const Options& options)
    : device_({.memory = options.memory, .virtual_memory = options.virtual_memory, .order = true, .late = true}),
      logged_(device_, log_),
      lying_(logged_),
      allocator_(std::make_unique<DeviceAllocator>(lying_, directory_, nullptr)) {
  allocator_->settings().SetOptions(options.policy);
}

OrderedProgram::~OrderedProgram() {
  const uint64_t faults = FaultsOfLateWork();
  if (log_.unordered().empty()) {
    EXPECT_EQ(faults, 0);
  }
}

bool OrderedProgram::HasViolations() const {
  const std::set<Moment>& unordered = log_.unordered();
  const std::set<Moment>& reported = log_.reported();
  EXPECT_TRUE(std::includes(unordered.begin(), unordered.end(), reported.begin(), reported.end()))
      << "the checker reported what has order:\n"
      << report();
  const Moment first_unordered = unordered.empty() ? log_.now() : *unordered.begin();
  const Moment first_reported = reported.empty() ? log_.now() : *reported.begin();
  EXPECT_EQ(first_reported, first_unordered) << "of " << log_.now() << " moments; the checker reported\n" << report();
  return !unordered.empty();
}

uint64_t OrderedProgram::FaultsOfLateWork() {
  device_.machine().streams().of(0).Wait();
  return device_.late_faults();
}

std::optional<Address> OrderedProgram::TryAllocate(Bytes size, Stream stream) {
  absl::StatusOr<Allocation> allocation = allocator_->Allocate(size, stream);
  if (!allocation.ok()) {
    EXPECT_TRUE(absl::IsResourceExhausted(allocation.status())) << allocation.status();
    return std::nullopt;
  }
  Touch(stream, allocation->address, allocation->size, /*writes=*/true, "new memory");
  live_.emplace(allocation->address, allocation->size);
  return allocation->address;
}

Address OrderedProgram::Allocate(Bytes size, Stream stream) {
  const std::optional<Address> address = TryAllocate(size, stream);
  EXPECT_TRUE(address.has_value()) << "out of memory";
  return address.value_or(Address());
}

void OrderedProgram::Free(Address address) {
  const auto block = live_.find(address);
  ASSERT_NE(block, live_.end());
  const Stream owner = allocator_->inspect().StreamsOf(address).front();
  Touch(owner, address, block->second, /*writes=*/false, "last use");
  live_.erase(block);
  EXPECT_TRUE(allocator_->Free(address).ok());
}

void OrderedProgram::UseOn(Address address, Stream stream, int64_t until) {
  const Stream owner = allocator_->inspect().StreamsOf(address).front();
  const Event written = *logged_.Record(owner);
  EXPECT_TRUE(logged_.StreamWait(stream, written).ok());
  logged_.Recycle(written);
  Touch(stream, address, live_.at(address), /*writes=*/false, "use by another stream");
  MakeBusyUntil(stream, until);
  EXPECT_TRUE(allocator_->RecordStream(address, stream).ok());
}

void OrderedProgram::SleepAndWake(Sleep::Choice chosen, Stream other) {
  Sleep sleep = allocator_->sleep();
  const absl::StatusOr<std::vector<Sleep::Range>> asleep = sleep.FallAsleep(chosen);
  EXPECT_EQ(asleep.ok(), captured_.empty()) << asleep.status();
  if (!asleep.ok()) return;
  EXPECT_TRUE(sleep.LetGo().ok());
  if (const std::optional<Address> taken = TryAllocate(kPageSize * 3, other)) Free(*taken);
  const absl::StatusOr<std::vector<Sleep::Range>> back = sleep.TakeBack(chosen);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_TRUE(sleep.WakeUp(chosen).ok());
  for (const Sleep::Range& range : *back) {
    const Address block = allocator_->inspect().FindBlock(range.address)->address;
    Touch(allocator_->inspect().StreamsOf(block).front(), range.address, range.size, /*writes=*/true, "woken memory");
  }
}

void OrderedProgram::BeginCapture(Stream stream) {
  device_.BeginCapture(stream);
  captured_.insert(stream);
}

void OrderedProgram::EndCapture(Stream stream) {
  device_.EndCapture(stream);
  captured_.erase(stream);
}

void TakeAll(OrderedProgram& program, Stream stream) {
  std::vector<Address> taken;
  while (const std::optional<Address> page = program.TryAllocate(kPageSize, stream)) taken.push_back(*page);
  for (Address page : taken) program.Free(page);
}

void TakeWhatIsFree(OrderedProgram& program) {
  std::vector<Address> taken;
  for (const SegmentView& segment : program.allocator().inspect().Snapshot()) {
    for (const BlockView& block : segment.blocks) {
      // A request of that size is for blocks of the other size group.
      if (block.state != BlockView::State::kFree || (block.size <= kSmallLimit) != segment.small) continue;
      if (const std::optional<Address> whole = program.TryAllocate(block.size, segment.stream)) taken.push_back(*whole);
    }
  }
  for (Address block : taken) program.Free(block);
}

}  // namespace frugal
