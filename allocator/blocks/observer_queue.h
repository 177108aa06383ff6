// What memory goes through, on its way to whoever listens.

#pragma once

#include <cstdint>
#include <deque>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "allocator/port/observer.h"
#include "allocator/port/thrown.h"

namespace frugal {

// Events are noted under the accounting lock, in the order in which they happen, and told in that order once their call
// has let go of it. So an observer may throw, wait or ask for memory: the accounting is whole, and nobody waits. No
// call returns before its own events were told.
class ObserverQueue {
 public:
  // A call of the allocator, from before it takes a lock until it has let go of all: on the stack of its thread.
  class Call {
   public:
    explicit Call(ObserverQueue& queue);
    // Tells what was noted, unless Finish has; what the observer throws then is lost.
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    // Tells all that was noted up to now, also by other threads. Throws the first that the observer threw at an event
    // of this call.
    void Finish();

   private:
    friend class ObserverQueue;

    ObserverQueue& queue_;
    Call* const outer_;
    bool is_finished_ = false;
    Thrown failure_;
  };

  ObserverQueue() = default;
  ObserverQueue(const ObserverQueue&) = delete;
  ObserverQueue& operator=(const ObserverQueue&) = delete;

  // --- Under the accounting lock.

  // null: nobody listens. What was noted before is still told to the one before.
  void SetObserver(Observer* observer) { observer_ = observer; }
  bool is_watched() const { return observer_ != nullptr; }
  // REQUIRES, for both: somebody listens.
  void Note(MemoryEvent event);
  void NoteDropped(void* annotation);

 private:
  struct Noted {
    Observer* observer;
    Call* call;  // null: one that began before anybody listened, or made by the observer itself
    bool is_event;
    MemoryEvent event;  // else its annotation was dropped
  };

  void Push(bool is_event, const MemoryEvent& event);
  void Tell(Call& by);
  void TellNoted(Call& by);
  static void Tell(const Noted& noted, Call& by);

  Observer* observer_ = nullptr;
  absl::Mutex turn_;  // held by whoever tells; no other lock of the allocator's is
  absl::Mutex mutex_ ABSL_ACQUIRED_AFTER(turn_);
  std::deque<Noted> noted_ ABSL_GUARDED_BY(mutex_);
  int64_t num_noted_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t num_told_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace frugal
