// What happened on a device, written down whole, and which of it has no order: the judge of the order checker, by brute
// force.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "allocator/port/device.h"
#include "allocator/port/units.h"

namespace frugal {

// One thing that happened, by its number in the log.
using Moment = size_t;

// Every moment keeps the whole set of uses that come before it, by the edges that lead to it: that of its stream (or of
// the host), of the event that it waits for, and of what the host knew when it was enqueued. Two uses of a byte are
// compared whenever they were. It shares no code with the simulated GPU, and no idea: no clock, nothing is forgotten.
// Not thread-safe.
class WorkLog {
 public:
  // --- What happens, in the order in which it does. Handles and events are never named twice.

  void Map(Address start, Bytes size, uint64_t physical) { views_[start] = {size, physical, {}}; }
  // The views in [start, start + size) go.
  Moment Unmap(Address start, Bytes size);
  Moment Use(Stream stream, Address start, Bytes size, bool writes);
  void Record(Stream stream, Event event);
  // A point after all that any stream was told so far.
  void RecordAll(Event event) { events_[event.id] = Happened(kNobody, Uses(uses_.size(), true)); }
  void Wait(Stream stream, Event event);
  // The host has been told that the event has passed.
  void HostSees(Event event);
  void HostSeesAll();
  // The order checker reported the moment, a use or an unmap.
  void NoteReported(Moment moment) { reported_.insert(moment); }

  // --- What comes of it.

  // The uses, and unmaps, that have no order with an earlier use of the same byte, one of the two writing, or of the
  // view.
  const std::set<Moment>& unordered() const { return unordered_; }
  const std::set<Moment>& reported() const { return reported_; }

  // Why nothing became unordered though `asker` (the host, or a stream) was not made to wait for `event` at `moment`.
  enum class Excuse {
    kNothingBefore,   // Everything before the event was known to the asker by other means.
    kNotUsedAgain,    // Nobody touched the bytes, or unmapped the views, of what came before the event.
    kOrderedByOther,  // Those who did were ordered in another way.
  };
  Excuse ExcuseFor(Event event, std::optional<Stream> asker, Moment moment) const;
  // The number that the next thing will have.
  Moment now() const { return before_.size(); }

 private:
  // A bit for each use, by its number.
  using Uses = std::vector<bool>;
  // Whom no other moment is of.
  static constexpr Stream kNobody{~uint64_t{1}};
  struct View {
    Bytes size;
    uint64_t physical;
    std::vector<size_t> uses;
  };
  // What one use touched of one piece of physical memory.
  struct Touch {
    size_t use;
    int64_t begin;
    int64_t end;
    bool writes;
  };

  static void Add(Uses& uses, const Uses& more);
  static bool Has(const Uses& uses, size_t use) { return use < uses.size() && uses[use]; }
  // What a stream, or the host, that does something now comes after.
  Uses Before(std::optional<Stream> who) const;
  Moment Happened(std::optional<Stream> who, Uses before);
  void Enter(size_t use, const Touch& touch, uint64_t physical, const Uses& before, Moment moment);
  bool IsTouchedAfter(Moment moment, const Uses& uses) const;

  std::map<Address, View> views_;
  std::map<uint64_t, std::vector<Touch>> touches_;  // By physical memory.
  std::vector<Uses> before_;                        // Of each moment; its own use included.
  std::vector<std::optional<Stream>> who_;          // Did it; nullopt: the host.
  std::map<Stream, Moment> last_;                   // Of each stream.
  std::optional<Moment> host_;
  std::map<uint64_t, Moment> events_;  // Where each was recorded.
  std::vector<Moment> uses_;           // The moment of each use.
  // For each moment that touches memory or unmaps views: the earlier uses that it has to come after.
  std::map<Moment, std::vector<size_t>> after_;
  std::set<Moment> unordered_;
  std::set<Moment> reported_;
};

}  // namespace frugal
