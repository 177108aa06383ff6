// A device's physical memory as its calls have left it: the handles, and where each of them can be seen.

#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "allocator/port/device.h"
#include "allocator/port/units.h"
#include "tests/shadow/stream_order.h"
#include "tests/shadow/verdict.h"

namespace frugal::shadow {

// What handles of more than one page went through.
struct LargeHandles {
  int64_t created = 0;
  int64_t moved = 0;  // mapped where they could not be seen, while they could be seen elsewhere
  int64_t released = 0;
  int64_t shared = 0;  // blocks handed out in one that another block lies in

  LargeHandles& operator+=(const LargeHandles& other) {
    created += other.created;
    moved += other.moved;
    released += other.released;
    shared += other.shared;
    return *this;
  }
};

// Fails the verdict over a call that a device must not be given. Who owns the bytes, the model that is derived from
// this writes into the handles and the views. Not thread-safe.
class MappedMemory {
 public:
  MappedMemory(const StreamOrder& order, Verdict& verdict) : order_(order), verdict_(verdict) {}
  virtual ~MappedMemory() = default;

  void Reserved(Address start, Bytes size) { ranges_[start].size = size; }
  void Unreserved(Address start);
  void Created(uint64_t handle, Bytes size);
  void Released(uint64_t handle);
  // Views come and go whole, and are opened whole, whatever the size of their handles.
  void Mapped(Address start, Bytes size, uint64_t handle);
  void AccessSet(Address start, Bytes size);
  void Unmapped(Address start, Bytes size);
  // cudaMalloc and cudaFree: memory of its own, in one piece, which cannot move.
  void SegmentMade(Address start, Bytes size);
  void SegmentGone(Address start);

  Bytes held() const { return held_; }
  // From now on until EndIdle(), only what was last used at or before `mark` may be unmapped.
  void BeginIdle(const Positions& mark) { idle_mark_ = &mark; }
  void EndIdle() { idle_mark_ = nullptr; }

  bool HasViews() const { return !views_.empty(); }
  bool HasRanges() const { return !ranges_.empty(); }

  // What became of handles of more than one page, so far.
  const LargeHandles& large() const { return large_; }

 protected:
  // Of a handle: bytes that one block owns, or that none owns and that were used alike. In grains from its start.
  struct Piece {
    uint32_t begin;
    uint32_t end;
    uint32_t block;  // 0: none
    Positions last_uses;
  };
  struct Handle {
    Bytes size;
    std::vector<Piece> pieces;
    uint32_t grains_in_use = 0;
    uint32_t blocks = 0;  // that have bytes of it
    bool is_large = false;
    std::vector<Address> views;
  };
  struct Range {
    Bytes size;
    Stream stream;  // of the blocks in it; 0: there was none yet
  };
  // Of a whole handle.
  struct View {
    uint64_t handle;
    Bytes size;
    Range* range;
    bool has_access = false;
    uint32_t blocks = 0;
    Positions last_uses;  // through this view, of blocks that are gone
  };
  using Views = std::map<Address, View>;

  static uint32_t GrainsOf(Bytes size) { return static_cast<uint32_t>(size.count() / kGrain.count()); }
  // The view that shows the address; end() if there is none.
  Views::iterator ViewAt(Address address);

  // Whether the blocks in the view, of which there are some, may lose their memory. Then they have lost it.
  virtual bool Loses(Address /*start*/, View& /*view*/) { return false; }

  const StreamOrder& order_;
  Verdict& verdict_;
  absl::flat_hash_map<uint64_t, Handle> handles_;
  Views views_;
  absl::flat_hash_map<Address, uint64_t> segments_;  // each a handle of its own
  LargeHandles large_;

 private:
  Range* RangeAt(Address address);
  void AddView(Address start, uint64_t handle, Range* range);
  void RemoveView(Views::iterator view);
  // Calls visit(view) for each, in order, and says so if they are not whole views side by side. `call`: what was done.
  template <typename Visit>
  void ForEachWhole(const char* call, Address start, Bytes size, Visit visit);

  std::map<Address, Range> ranges_;
  uint64_t next_segment_ = uint64_t{1} << 62;
  Bytes held_;
  const Positions* idle_mark_ = nullptr;
};

}  // namespace frugal::shadow
