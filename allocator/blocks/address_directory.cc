#include "allocator/blocks/address_directory.h"

#include <utility>

#include "allocator/port/check.h"

namespace frugal {
namespace {

constexpr size_t kLeastCapacity = 64;

}  // namespace

AddressDirectory::AddressDirectory() {
  absl::MutexLock lock(&mutex_);
  tables_.push_back(std::make_unique<Table>(kLeastCapacity));
  table_.store(tables_.back().get(), std::memory_order_release);
}

AddressDirectory::~AddressDirectory() = default;

// In both of these every store that readers may see has release order, hence comes after the odd version.

void AddressDirectory::Insert(Address start, Bytes size, DeviceAllocator* owner) {
  absl::MutexLock lock(&mutex_);
  Table& table = GrowTable();
  const size_t count = table.count.load(std::memory_order_relaxed);
  size_t place = count;
  while (place > 0 && start < table.ranges[place - 1].start.load(std::memory_order_relaxed)) --place;
  // A driver that hands out a range twice would have two blocks share their bytes.
  FRUGAL_CHECK(place == 0 || table.ranges[place - 1].end.load(std::memory_order_relaxed) <= start);
  FRUGAL_CHECK(place == count || start + size <= table.ranges[place].start.load(std::memory_order_relaxed));
  version_.fetch_add(1, std::memory_order_relaxed);
  table.count.store(count + 1, std::memory_order_release);
  for (size_t moved = count; moved > place; --moved) Copy(table.ranges[moved - 1], table.ranges[moved]);
  table.ranges[place].start.store(start, std::memory_order_release);
  table.ranges[place].end.store(start + size, std::memory_order_release);
  table.ranges[place].owner.store(owner, std::memory_order_release);
  version_.fetch_add(1, std::memory_order_release);
}

void AddressDirectory::Erase(Address start) {
  absl::MutexLock lock(&mutex_);
  Table& table = *tables_.back();
  const size_t count = table.count.load(std::memory_order_relaxed);
  size_t place = 0;
  while (place < count && table.ranges[place].start.load(std::memory_order_relaxed) != start) ++place;
  FRUGAL_CHECK(place < count);
  version_.fetch_add(1, std::memory_order_relaxed);
  for (; place + 1 < count; ++place) Copy(table.ranges[place + 1], table.ranges[place]);
  table.count.store(count - 1, std::memory_order_release);
  version_.fetch_add(1, std::memory_order_release);
}

DeviceAllocator* AddressDirectory::FindLocked(Address address) const {
  absl::MutexLock lock(&mutex_);
  return Search(*tables_.back(), address);
}

AddressDirectory::Table& AddressDirectory::GrowTable() {
  Table& old = *tables_.back();
  const size_t count = old.count.load(std::memory_order_relaxed);
  if (count < old.ranges.size()) return old;
  auto larger = std::make_unique<Table>(2 * old.ranges.size());
  for (size_t i = 0; i < count; ++i) Copy(old.ranges[i], larger->ranges[i]);
  larger->count.store(count, std::memory_order_relaxed);
  // The same ranges: whoever reads either table finds the same.
  table_.store(larger.get(), std::memory_order_release);
  tables_.push_back(std::move(larger));
  return *tables_.back();
}

void AddressDirectory::Copy(const Range& from, Range& to) {
  to.start.store(from.start.load(std::memory_order_relaxed), std::memory_order_release);
  to.end.store(from.end.load(std::memory_order_relaxed), std::memory_order_release);
  to.owner.store(from.owner.load(std::memory_order_relaxed), std::memory_order_release);
}

}  // namespace frugal
