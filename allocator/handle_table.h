// The physical memory that a device's arenas hold.

#ifndef FRUGAL_ALLOCATOR_HANDLE_TABLE_H_
#define FRUGAL_ALLOCATOR_HANDLE_TABLE_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allocator/device.h"
#include "allocator/extent.h"

namespace frugal {

struct PageRef {
  Extent* extent = nullptr;
  int64_t page = 0;
  friend bool operator==(const PageRef&, const PageRef&) = default;
};

// One page of physical memory. Its home is the page where its view is live: its bytes belong to the blocks there.
struct Handle {
  PhysicalHandle physical;
  PageRef home;
  absl::InlinedVector<PageRef, 2> stale;  // where it can still be seen
};

// Not thread-safe. Invariant: each handle has one live view, its home, or is a spare; and a stale view at each
// place in `stale`.
class HandleTable {
 public:
  explicit HandleTable(Device& device) : device_(device) {}

  Pages held() const { return Pages(static_cast<int64_t>(handles_.size())); }

  Pages spares() const { return Pages(static_cast<int64_t>(spares_.size())); }

  // A handle without a home: a spare, else a new one. kResourceExhausted: the device is full.
  absl::StatusOr<Handle*> Create();
  // Gives a handle without a home back to the device. If the device refuses, or a view could not be unmapped, it
  // is kept as a spare and the error returned.
  absl::Status Release(Handle* handle);

  // All spares; the caller uses or releases each.
  std::vector<Handle*> TakeSpares() { return std::exchange(spares_, {}); }

  // The device's mapping of a handle at a page, and the books of it. On an error neither has changed.
  absl::Status MapAt(Handle* handle, PageRef place);
  // REQUIRES: every page of the run has a view.
  absl::Status UnmapRun(PageRun run);

  // The handle's bytes belong to `place` now, where it is mapped already. A home that it had becomes a
  // stale view that may go once `last_use` has passed.
  void MoveHome(Handle* handle, PageRef place, std::shared_ptr<Fence> last_use);

  // Gives every handle back, whatever is mapped. For the end of a device's allocator.
  absl::Status ReleaseAll();

  void CheckInvariants() const;

 private:
  void CheckStaleViews(const Handle& handle) const;

  Device& device_;
  absl::flat_hash_map<const Handle*, std::unique_ptr<Handle>> handles_;
  std::vector<Handle*> spares_;
};

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_HANDLE_TABLE_H_
