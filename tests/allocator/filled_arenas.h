// Arenas whose pages are filled by hand, with handles that no device knows.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "allocator/blocks/arena_set.h"
#include "allocator/stitching/handle_table.h"
#include "gtest/gtest.h"
#include "simulated_gpu/machine/simulated_device.h"
#include "tests/allocator/held_locks.h"

namespace frugal {

class FilledArenas : public testing::Test {
 protected:
  Arena& NewArena(int64_t pages) {
    Arena& arena = arenas_.Get(Stream{next_stream_++}, SizeClass::kLarge);
    arena.AddExtent(Address(next_address_), Pages(pages).bytes());
    next_address_ += uint64_t{1} << 40;
    return arena;
  }
  static Extent& ExtentOf(Arena& arena) { return *arena.extents().front(); }
  // With one handle for every `pages_of_handle` of the pages.
  void Fill(Arena& arena, int64_t first, int64_t count, int64_t pages_of_handle = 1) {
    Extent& extent = ExtentOf(arena);
    for (int64_t page = first; page < first + count; page += pages_of_handle) {
      Handle& handle = NewHandle(pages_of_handle, {&extent, page});
      handle.home = handle.place;
      for (int32_t part = 0; part < pages_of_handle; ++part) {
        extent.pages().MutableView(page + part) = View{View::State::kLive, part, &handle};
      }
    }
    arena.Fill({&extent, first, count});
  }
  Handle& NewHandle(int64_t pages, PageRef place) {
    handles_.push_back(std::make_unique<Handle>());
    handles_.back()->pages = pages;
    handles_.back()->place = place;
    return *handles_.back();
  }

  sim::SimulatedDevice device_{{.memory = MiB(64)}};
  Ledger ledger_;
  HeldLocks locks_;
  StreamClocks clocks_{device_, ledger_, nullptr, locks_.lock()};
  ArenaSet arenas_{/*can_move=*/true, clocks_, ledger_};

 private:
  std::vector<std::unique_ptr<Handle>> handles_;
  uint64_t next_stream_ = 1;
  uint64_t next_address_ = uint64_t{1} << 40;
};

}  // namespace frugal
