// What comes before what on the streams of one device, as the host and the streams have been told: one number for each
// stream. Naive on purpose, and apart from the simulated GPU's own idea of time: that an event has passed on the clock
// is not known before somebody asked.

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "allocator/port/device.h"
#include "tests/shadow/operation.h"

namespace frugal::shadow {

// For each stream how far its work goes: the pieces of work launched on a stream are numbered from 1.
struct Positions {
  std::array<uint32_t, kStreams> of = {};

  void Raise(const Positions& other) {
    for (size_t i = 0; i < kStreams; ++i) of[i] = std::max(of[i], other.of[i]);
  }
  bool IsWithin(const Positions& other) const {
    bool within = true;
    for (size_t i = 0; i < kStreams; ++i) within &= of[i] <= other.of[i];
    return within;
  }
  friend bool operator==(const Positions&, const Positions&) = default;
};

// Not thread-safe.
class StreamOrder {
 public:
  // Something is launched on the stream: raises `uses` to it.
  void Launch(Stream stream, Positions& uses) {
    const size_t i = Index(stream);
    uses.of[i] = std::max(uses.of[i], ++launched_.of[i]);
    known_[i].of[i] = launched_.of[i];
  }
  void Recorded(Stream stream, Event event) { events_[event.id] = KnownTo(stream); }
  void StreamWaits(Stream stream, Event event) { known_[Index(stream)].Raise(events_[event.id]); }
  // The host knows that the event has passed; so does all that it launches from now on.
  void HostSaw(Event event) { host_.Raise(events_[event.id]); }
  void HostSawEverything() { host_ = launched_; }
  void Forget(Event event) { events_.erase(event.id); }

  // Whether what the stream does from now on comes after `uses`.
  bool IsAfter(Stream stream, const Positions& uses) const { return uses.IsWithin(KnownTo(stream)); }
  // Whether the host knows that they are over.
  bool IsOver(const Positions& uses) const { return uses.IsWithin(host_); }
  const Positions& launched() const { return launched_; }

 private:
  static size_t Index(Stream stream) { return static_cast<size_t>(stream.id - 1); }
  Positions KnownTo(Stream stream) const {
    Positions known = known_[Index(stream)];
    known.Raise(host_);
    return known;
  }

  Positions launched_;
  Positions host_;
  std::array<Positions, kStreams> known_ = {};
  std::unordered_map<uint64_t, Positions> events_;
};

}  // namespace frugal::shadow
