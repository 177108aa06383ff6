#include "tests/order/ordered_program.h"

#include "gtest/gtest.h"

namespace frugal {

OrderedProgram::OrderedProgram(const Options& options)
    : device_({.memory = options.memory, .virtual_memory = options.virtual_memory, .order = true}),
      lying_(device_),
      allocator_(std::make_unique<DeviceAllocator>(lying_, directory_, nullptr)) {}

std::optional<Address> OrderedProgram::TryAllocate(Bytes size, Stream stream) {
  absl::StatusOr<Allocation> allocation = allocator_->Allocate(size, stream);
  if (!allocation.ok()) {
    EXPECT_TRUE(absl::IsResourceExhausted(allocation.status())) << allocation.status();
    return std::nullopt;
  }
  device_.Touch(stream, allocation->address, allocation->size, /*writes=*/true, "new memory");
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
  const Stream owner = allocator_->StreamsOf(address).front();
  device_.Touch(owner, address, block->second, /*writes=*/false, "last use");
  live_.erase(block);
  EXPECT_TRUE(allocator_->Free(address).ok());
}

void OrderedProgram::UseOn(Address address, Stream stream, int64_t until) {
  const Stream owner = allocator_->StreamsOf(address).front();
  const Event written = *device_.Record(owner);
  EXPECT_TRUE(device_.StreamWait(stream, written).ok());
  device_.Recycle(written);
  device_.Touch(stream, address, live_.at(address), /*writes=*/false, "use by another stream");
  MakeBusyUntil(stream, until);
  EXPECT_TRUE(allocator_->RecordStream(address, stream).ok());
}

void OrderedProgram::TakeAll(Stream stream) {
  std::vector<Address> taken;
  while (const std::optional<Address> page = TryAllocate(kPageSize, stream)) taken.push_back(*page);
  for (Address page : taken) Free(page);
}

}  // namespace frugal
