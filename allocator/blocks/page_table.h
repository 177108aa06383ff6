// What can be seen at each page of a reserved range of addresses.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "allocator/blocks/stream_clock.h"
#include "allocator/blocks/stream_clocks.h"

namespace frugal {

struct Handle;

// What can be seen at one page. A handle of several pages is seen at as many, which share a state.
struct View {
  enum class State : uint8_t {
    kNone,   // nothing is mapped
    kLive,   // the page's memory: blocks lie in it
    kStale,  // the handle's bytes belong to another page; work started before they went may still use this one
  };
  State state = State::kNone;
  // Which page of the handle it is, from 0.
  int32_t part = 0;
  Handle* handle = nullptr;
  // Not of a view whose mapping could neither be opened for access nor undone.
  bool accessible = false;
  // Of a stale view: it may be unmapped once the arena's stream has passed the first, and all have passed the second.
  StreamClock::Tick last_use = 0;
  StreamClocks::Era left_in = 0;
};

// Pages are numbered from the start of the range. Not thread-safe.
class PageTable {
 public:
  const View& view(int64_t page) const { return page < touched() ? views_[static_cast<size_t>(page)] : kNoView; }
  View& MutableView(int64_t page) {
    if (page >= touched()) views_.resize(static_cast<size_t>(page) + 1);
    return views_[static_cast<size_t>(page)];
  }
  // No page from this one on was ever mapped, or none is since Forget.
  int64_t touched() const { return static_cast<int64_t>(views_.size()); }
  // The pages at the end that are not mapped are as if they never had been.
  void Forget() {
    while (!views_.empty() && views_.back().state == View::State::kNone) views_.pop_back();
  }

  // How many handles are live here that have their home elsewhere.
  int64_t guests() const { return guests_; }
  void CountGuests(int64_t change) { guests_ += change; }
  // How many handles are live here that are to stay: see Handle::Stays.
  int64_t in_place() const { return in_place_; }
  void CountInPlace(int64_t change) { in_place_ += change; }

  // So many pages from `first` on, all of a hole, are being filled: no handle goes home to where it would be seen
  // there.
  void BeginFilling(int64_t first, int64_t count) {
    filling_from_ = first;
    filling_to_ = first + count;
  }
  void EndFilling() { filling_from_ = filling_to_ = 0; }
  bool IsFilling(int64_t first, int64_t count) const { return first < filling_to_ && filling_from_ < first + count; }

 private:
  static inline const View kNoView = {};
  // One a page, up to the last that is taken for mapped: ranges are reserved several times as large as the device.
  std::vector<View> views_;
  int64_t guests_ = 0;
  int64_t in_place_ = 0;
  int64_t filling_from_ = 0;
  int64_t filling_to_ = 0;
};

}  // namespace frugal
