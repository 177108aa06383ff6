#include "allocator/address_directory.h"

#include <algorithm>
#include <utility>

namespace frugal {

AddressDirectory::AddressDirectory() : current_(nullptr) {
  absl::MutexLock lock(&mutex_);
  Publish(Table());
}

AddressDirectory::~AddressDirectory() = default;

void AddressDirectory::Insert(Address start, Bytes size, DeviceAllocator* owner) {
  absl::MutexLock lock(&mutex_);
  Table table = *current_.load(std::memory_order_relaxed);
  auto after = std::upper_bound(table.begin(), table.end(), start,
                                [](Address address, const Range& range) { return address < range.start; });
  table.insert(after, Range{start, start + size, owner});
  Publish(std::move(table));
}

void AddressDirectory::Erase(Address start) {
  absl::MutexLock lock(&mutex_);
  Table table = *current_.load(std::memory_order_relaxed);
  std::erase_if(table, [start](const Range& range) { return range.start == start; });
  Publish(std::move(table));
}

DeviceAllocator* AddressDirectory::Find(Address address) const {
  ReaderCount& reader = MyReaderCount();
  reader.count.fetch_add(1, std::memory_order_seq_cst);
  const Table& table = *current_.load(std::memory_order_seq_cst);
  auto after = std::upper_bound(table.begin(), table.end(), address,
                                [](Address wanted, const Range& range) { return wanted < range.start; });
  DeviceAllocator* owner = nullptr;
  if (after != table.begin() && address < std::prev(after)->end) owner = std::prev(after)->owner;
  reader.count.fetch_sub(1, std::memory_order_release);
  return owner;
}

void AddressDirectory::Publish(Table table) {
  tables_.push_back(std::make_unique<const Table>(std::move(table)));
  current_.store(tables_.back().get(), std::memory_order_seq_cst);
  // A reader that starts after the store sees the new table, so none can hold an old one if none is under way now.
  if (!HasReaders()) tables_.erase(tables_.begin(), tables_.end() - 1);
}

bool AddressDirectory::HasReaders() const {
  return std::any_of(readers_.begin(), readers_.end(),
                     [](const ReaderCount& reader) { return reader.count.load(std::memory_order_seq_cst) != 0; });
}

AddressDirectory::ReaderCount& AddressDirectory::MyReaderCount() const {
  static std::atomic<size_t> threads{0};
  thread_local const size_t mine = threads.fetch_add(1, std::memory_order_relaxed) % kReaderCounts;
  return readers_[mine];
}

}  // namespace frugal
