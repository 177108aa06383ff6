// Who owns which byte of a device's physical memory, where each handle of it can be seen, and what used it last. It
// learns of handles from the device and of blocks from whoever asks for them; of the allocator under test it knows
// nothing.

#ifndef FRUGAL_TESTS_SHADOW_MEMORY_MODEL_H_
#define FRUGAL_TESTS_SHADOW_MEMORY_MODEL_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "allocator/port/device.h"
#include "allocator/port/units.h"
#include "tests/shadow/stream_order.h"

namespace frugal::shadow {

// The first thing that was not as it must be.
class Verdict {
 public:
  bool failed() const { return !text_.empty(); }
  const std::string& text() const { return text_; }
  void Fail(std::string text) {
    if (!failed()) text_ = std::move(text);
  }

 private:
  std::string text_;
};

// Whether each stream is being captured.
using Captured = std::array<bool, kStreams>;

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

// Not thread-safe.
class MemoryModel {
 public:
  MemoryModel(const StreamOrder& order, Verdict& verdict) : order_(order), verdict_(verdict) {}

  // --- What the device did.

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

  // --- What was handed out, and what came back.

  // To work on `stream` from now on.
  void HandOut(uint32_t block, Address start, Bytes size, Stream stream);
  // With what used it last.
  void TakeBack(uint32_t block, Address start, Bytes size, const Positions& uses);

  // --- What must be so.

  Bytes held() const { return held_; }
  // Of handles of which no byte is in use, and which a request on `stream` can be given without a wait for a captured
  // stream.
  Pages FreePages(Stream stream, const Captured& captured) const;
  // Of handles of which no byte is in use.
  Pages UnusedPages() const;
  // Segments of which no byte is in use, nor awaits a stream that is being captured.
  Bytes UnusedSegments(const Captured& captured) const;

  // From now on until EndIdle(), only what was last used at or before `mark` may be unmapped.
  void BeginIdle(const Positions& mark) { idle_mark_ = &mark; }
  void EndIdle() { idle_mark_ = nullptr; }

  bool HasViews() const { return !views_.empty(); }
  bool HasRanges() const { return !ranges_.empty(); }

  // What became of handles of more than one page, so far.
  const LargeHandles& large() const { return large_; }

 private:
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
  Range* RangeAt(Address address);
  // The view that shows the address; end() if there is none.
  Views::iterator ViewAt(Address address);
  void AddView(Address start, uint64_t handle, Range* range);
  void RemoveView(Views::iterator view);
  // Calls visit(view) for each, in order, and says so if they are not whole views side by side. `call`: what was done.
  template <typename Visit>
  void ForEachWhole(const char* call, Address start, Bytes size, Visit visit);
  // Calls visit(view, begin, end) for each view of the bytes, with the grains of its handle.
  template <typename Visit>
  void ForEachPart(uint32_t block, Address start, Bytes size, Visit visit);
  // The pieces of [begin, end) become one.
  static void Replace(std::vector<Piece>& pieces, Piece one);
  static size_t PieceAt(const std::vector<Piece>& pieces, uint32_t grain);
  void CheckFree(const Handle& handle, uint32_t begin, uint32_t end, uint32_t block, Stream stream);
  void Merge(std::vector<Piece>& pieces, uint32_t begin);
  bool MayMove(const Handle& handle, Stream stream, const Captured& captured) const;
  // Whether one of these streams may still use a byte of it.
  bool IsUsedBy(const Captured& streams, const Handle& handle) const;

  const StreamOrder& order_;
  Verdict& verdict_;
  std::map<Address, Range> ranges_;
  absl::flat_hash_map<uint64_t, Handle> handles_;
  Views views_;
  absl::flat_hash_map<Address, uint64_t> segments_;  // each a handle of its own
  uint64_t next_segment_ = uint64_t{1} << 62;
  Bytes held_;
  LargeHandles large_;
  const Positions* idle_mark_ = nullptr;
};

}  // namespace frugal::shadow

#endif  // FRUGAL_TESTS_SHADOW_MEMORY_MODEL_H_
