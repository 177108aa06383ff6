#include "allocator/blocks/observer_queue.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace frugal {
namespace {

// Of the calling thread: its innermost call that is watched, and whether it is telling an observer something. A call
// that an observer makes then leaves its events to this thread, which tells those of the same queue in their turn, and
// those of others (another GPU's) once it holds no turn: two threads would else wait for each other's.
thread_local ObserverQueue::Call* current = nullptr;
thread_local bool is_telling = false;
thread_local std::vector<ObserverQueue*> left_over;

}  // namespace

ObserverQueue::Call::Call(ObserverQueue& queue) : queue_(queue), outer_(current) {
  current = is_telling ? nullptr : this;
}

ObserverQueue::Call::~Call() {
  if (is_finished_) return;
  current = outer_;
  queue_.Tell(*this);
}

void ObserverQueue::Call::Finish() {
  is_finished_ = true;
  current = outer_;
  queue_.Tell(*this);
  if (!failure_.is_empty()) failure_.Throw();
}

void ObserverQueue::Note(MemoryEvent event) {
  if (current != nullptr && &current->queue_ == this) event.origin = observer_->Origin();
  Push(/*is_event=*/true, event);
}

void ObserverQueue::NoteDropped(void* annotation) {
  MemoryEvent event{};
  event.annotation = annotation;
  Push(/*is_event=*/false, event);
}

void ObserverQueue::Push(bool is_event, const MemoryEvent& event) {
  Call* const call = current != nullptr && &current->queue_ == this ? current : nullptr;
  const absl::MutexLock lock(&mutex_);
  noted_.push_back({observer_, call, is_event, event});
  ++num_noted_;
}

void ObserverQueue::Tell(Call& by) {
  if (is_telling) {
    if (std::find(left_over.begin(), left_over.end(), this) == left_over.end()) left_over.push_back(this);
    return;
  }
  is_telling = true;
  TellNoted(by);
  for (ObserverQueue* const queue : std::exchange(left_over, {})) queue->TellNoted(by);
  // An observer that asks for memory at every event would else be told for ever.
  left_over.clear();
  is_telling = false;
}

void ObserverQueue::TellNoted(Call& by) {
  const absl::MutexLock turn(&turn_);
  std::optional<int64_t> until;
  for (;;) {
    Noted next;
    {
      const absl::MutexLock lock(&mutex_);
      // Not what others note meanwhile, which they tell.
      if (!until.has_value()) until = num_noted_;
      if (num_told_ >= *until) break;
      next = noted_.front();
      noted_.pop_front();
      ++num_told_;
    }
    Tell(next, by);
  }
}

void ObserverQueue::Tell(const Noted& noted, Call& by) {
  try {
    if (noted.is_event) {
      noted.observer->OnMemoryEvent(noted.event);
    } else {
      noted.observer->DropAnnotation(noted.event.annotation);
    }
  } catch (...) {
    Call& call = noted.call != nullptr ? *noted.call : by;
    if (call.failure_.is_empty()) call.failure_.Catch();
  }
}

}  // namespace frugal
