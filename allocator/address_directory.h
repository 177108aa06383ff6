// Which device's allocator owns an address, for callers who hold only a pointer.

#ifndef FRUGAL_ALLOCATOR_ADDRESS_DIRECTORY_H_
#define FRUGAL_ALLOCATOR_ADDRESS_DIRECTORY_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "allocator/units.h"

namespace frugal {

class DeviceAllocator;

// Thread-safety: any thread. Find takes no lock: ranges are few (a handful per stream) and change
// rarely, so each change publishes a new sorted table; the old ones go when no reader is under way.
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
  DeviceAllocator* Find(Address address) const;

 private:
  struct Range {
    Address start;
    Address end;
    DeviceAllocator* owner;
  };
  using Table = std::vector<Range>;

  // Readers under way, spread over cache lines so that threads do not slow each other.
  struct alignas(64) ReaderCount {
    std::atomic<int64_t> count{0};
  };
  static constexpr size_t kReaderCounts = 16;

  void Publish(Table table) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasReaders() const;
  ReaderCount& MyReaderCount() const;

  absl::Mutex mutex_;
  // The last is current; the others may still have readers.
  std::vector<std::unique_ptr<const Table>> tables_ ABSL_GUARDED_BY(mutex_);
  std::atomic<const Table*> current_;
  mutable std::array<ReaderCount, kReaderCounts> readers_;
};

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_ADDRESS_DIRECTORY_H_
