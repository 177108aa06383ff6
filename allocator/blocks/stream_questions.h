// What has to be known of streams before memory may be taken or given back, asked between two attempts to choose it.

#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "allocator/blocks/ledger.h"
#include "allocator/blocks/stream_clock.h"
#include "allocator/blocks/stream_clocks.h"
#include "allocator/port/device.h"

namespace frugal {

// A choice is made with the accounting lock held, and the device is asked without it, while others go on. So a choice
// that depends on what is not known takes it for granted and notes it as a question; then the questions are asked, and
// the choice is made anew, until it raises none:
//
//   choice = questions.Choose([&] { ... questions.HasPassed(clock, tick) ... });
//
// That last choice rests on nothing but what was true all the while. What chooses must change nothing. An answer of no
// is kept, so that nothing is asked twice. A stream whose calls fail answers no: it must not keep the memory of all
// others from being used. Not thread-safe. All but Ask and Choose make no device call.
class StreamQuestions {
 public:
  using Tick = StreamClock::Tick;
  using Era = StreamClocks::Era;

  // Both must outlive this.
  StreamQuestions(StreamClocks& clocks, Ledger& ledger) : clocks_(clocks), ledger_(ledger) {}

  // Whether all work up to the end of `tick`, ended for that if it can be, is done.
  bool HasPassed(StreamClock& clock, Tick tick);
  // Whether `tick` has an end, which others could wait for.
  bool IsEnded(StreamClock& clock, Tick tick);
  // Whether `waiter` waits for `tick`: the question makes it do so. No, if the tick has no end.
  bool IsBehind(Stream waiter, StreamClock& clock, Tick tick);
  // Whether all streams have passed `era`, and this one `tick`. The era is asked about first: its marks end the tick.
  bool HaveLeft(Era era, StreamClock& clock, Tick tick);

  // Time has passed, or the host goes on without a stream: what was not so may be so now. False: all was.
  bool Forget();
  // Asks the device what was noted, for which it lets go of the accounting lock. False: nothing was.
  bool Ask();
  // What `choose` returns when it raises no question, after all that it raised before were asked.
  template <typename Choice>
  auto Choose(Choice&& choose) {
    while (true) {
      auto choice = choose();
      if (!Ask()) return choice;
    }
  }

 private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  // What was asked, or is to be asked, of something that passes in order.
  struct Points {
    int64_t refused = kNever;  // the first that is known not to be so
    std::vector<int64_t> open;
  };
  struct OfStream {
    StreamClock* clock;
    Points passed = {};
    Points ended = {};
    Points behind = {};
    Stream waiter = {};
    Tick waited_for = 0;  // by the waiter
  };
  // Others may free memory all the while, and each time that is a new question: from then on what is not known is no.
  static constexpr int kMostRounds = 32;

  OfStream& Of(StreamClock& clock);
  // Whether it may be so. Notes it as a question then.
  bool IsOpen(Points& points, int64_t point);
  // Asks about the last of the open points and, if it is not so, from the first on until one is not.
  static void Settle(Points& points, absl::FunctionRef<bool(int64_t)> is_so);
  // Of a question that the device may fail.
  bool Answer(const absl::StatusOr<bool>& answer);
  bool MakeWait(OfStream& stream, Tick tick);

  StreamClocks& clocks_;
  Ledger& ledger_;
  // In the order in which they came up, so that the same work has the same outcome in each run. They are few.
  std::vector<OfStream> streams_;
  Points eras_;
  bool has_open_ = false;
  int rounds_ = 0;
};

}  // namespace frugal
