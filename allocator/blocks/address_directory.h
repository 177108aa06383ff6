// Which device's allocator owns an address, for callers who hold only a pointer.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "allocator/port/units.h"

namespace frugal {

class DeviceAllocator;

// Thread-safety: any thread. Every free asks, and ranges change rarely, so Find neither locks nor writes: it reads the
// ranges, and once more under the lock if they changed meanwhile (a sequence lock).
class AddressDirectory {
 public:
  AddressDirectory();
  ~AddressDirectory();
  AddressDirectory(const AddressDirectory&) = delete;
  AddressDirectory& operator=(const AddressDirectory&) = delete;

  // REQUIRES: [start, start + size) overlaps no range inserted before.
  void Insert(Address start, Bytes size, DeviceAllocator* owner);
  // REQUIRES: a range that was inserted with this start.
  void Erase(Address start);

  // null: nobody's.
  DeviceAllocator* Find(Address address) const {
    const uint64_t version = version_.load(std::memory_order_acquire);
    DeviceAllocator* const owner = Search(*table_.load(std::memory_order_acquire), address);
    // A load that saw a later change happens after the version became odd.
    if (version_.load(std::memory_order_relaxed) != version || version % 2 != 0) [[unlikely]] {
      return FindLocked(address);
    }
    return owner;
  }

 private:
  struct Range {
    std::atomic<Address> start;
    std::atomic<Address> end;
    std::atomic<DeviceAllocator*> owner;
  };
  // The ranges in the order of addresses. Its capacity never changes, so that reading it while it is written to is
  // safe.
  struct Table {
    explicit Table(size_t capacity) : ranges(capacity) {}
    std::vector<Range> ranges;
    std::atomic<size_t> count{0};
  };

  static DeviceAllocator* Search(const Table& table, Address address) {
    // The first range that starts behind the address, by halving.
    size_t begin = 0;
    size_t end = table.count.load(std::memory_order_acquire);
    while (begin < end) {
      const size_t middle = (begin + end) / 2;
      if (table.ranges[middle].start.load(std::memory_order_acquire) <= address) {
        begin = middle + 1;
      } else {
        end = middle;
      }
    }
    if (begin == 0) return nullptr;
    const Range& range = table.ranges[begin - 1];
    return address < range.end.load(std::memory_order_acquire) ? range.owner.load(std::memory_order_acquire) : nullptr;
  }

  DeviceAllocator* FindLocked(Address address) const ABSL_LOCKS_EXCLUDED(mutex_);
  // A table with room for one more range.
  Table& GrowTable() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void Copy(const Range& from, Range& to);

  mutable absl::Mutex mutex_;
  std::atomic<uint64_t> version_{0};  // odd while a change is under way
  std::atomic<Table*> table_;
  // The last is table_; the others may still be read. Each is twice as large as the one before, so all of them together
  // are as large as the last.
  std::vector<std::unique_ptr<Table>> tables_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace frugal
