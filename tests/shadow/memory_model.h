// Who owns which byte of a device's physical memory, and what used it last. It learns of handles from the device and of
// blocks from whoever asks for them; of the allocator under test it knows nothing.

#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "allocator/port/device.h"
#include "allocator/port/units.h"
#include "tests/shadow/mapped_memory.h"
#include "tests/shadow/stream_order.h"

namespace frugal::shadow {

// Whether each stream is being captured.
using Captured = std::array<bool, kStreams>;

// Not thread-safe.
class MemoryModel final : public MappedMemory {
 public:
  using MappedMemory::MappedMemory;

  // --- What was handed out, and what came back.

  // To work on `stream` from now on.
  void HandOut(uint32_t block, Address start, Bytes size, Stream stream);
  // With what used it last.
  void TakeBack(uint32_t block, Address start, Bytes size, const Positions& uses);

  // --- What sleeps.

  // Bytes of a block within one page.
  struct Part {
    Address start;
    Bytes size;
    uint32_t block;
    friend auto operator<=>(const Part&, const Part&) = default;
  };
  // By address.
  using Parts = std::vector<Part>;
  static void AddParts(Address start, Bytes size, uint32_t block, Parts& parts);
  // Those of blocks that go, in handles that no others have bytes of.
  Parts Under(const absl::flat_hash_set<uint32_t>& goes) const;
  // From now on until EndLetGo() these may go with the handles below them.
  void BeginLetGo(Parts parts) { may_go_ = std::move(parts); }
  // What went.
  Parts EndLetGo() {
    may_go_.clear();
    return std::exchange(gone_, {});
  }

  // --- What must be so.

  // Of handles of which no byte is in use, and which a request on `stream` can be given without a wait for a captured
  // stream.
  Pages FreePages(Stream stream, const Captured& captured) const;
  // Of handles of which no byte is in use.
  Pages UnusedPages() const;
  // Segments of which no byte is in use, nor awaits a stream that is being captured.
  Bytes UnusedSegments(const Captured& captured) const;

 private:
  // Calls visit(view, begin, end) for each view of the bytes, with the grains of its handle.
  template <typename Visit>
  void ForEachPart(uint32_t block, Address start, Bytes size, Visit visit);
  // The pieces of [begin, end) become one.
  static void Replace(std::vector<Piece>& pieces, Piece one);
  static size_t PieceAt(const std::vector<Piece>& pieces, uint32_t grain);
  void CheckFree(const Handle& handle, uint32_t begin, uint32_t end, uint32_t block, Stream stream);
  void Merge(std::vector<Piece>& pieces, uint32_t begin);
  bool Loses(Address start, View& view) override;
  bool MayMove(const Handle& handle, Stream stream, const Captured& captured) const;
  // Whether one of these streams may still use a byte of it.
  bool IsUsedBy(const Captured& streams, const Handle& handle) const;

  Parts may_go_;
  Parts gone_;
};

}  // namespace frugal::shadow
