#include "simulated_gpu/machine/thread_state.h"

#include <atomic>
#include <utility>

namespace frugal::sim {

uint64_t ThreadState::NextNumber() {
  static std::atomic<uint64_t> next{1};
  return next++;
}

void ThreadState::SetContext(Context* to) {
  if (to == nullptr && !pushed_contexts.empty()) {
    to = pushed_contexts.back();
    pushed_contexts.pop_back();
  }
  context = to;
  if (context != nullptr) gpu = context->gpu();
}

void ThreadState::PushContext(Context* to) {
  if (context != nullptr) pushed_contexts.push_back(context);
  SetContext(to);
}

Context* ThreadState::PopContext() {
  Context* popped = context;
  SetContext(nullptr);
  return popped;
}

namespace {

// A pointer, so that a call of CUDA's finds it without asking whether it was made.
thread_local ThreadState* this_thread = nullptr;
thread_local bool has_ended = false;

// Ends the state with its thread.
struct Owner {
  bool is_there = false;
  ~Owner() {
    delete std::exchange(this_thread, nullptr);
    has_ended = true;
  }
};
thread_local Owner owner;

[[gnu::noinline]] ThreadState& MakeThisThread() {
  auto* const made = new ThreadState;
  this_thread = made;
  // Whoever calls CUDA while the thread ends, after its owner, gets a state that is left behind.
  if (!has_ended) owner.is_there = true;
  return *made;
}

}  // namespace

ThreadState& ThisThread() {
  ThreadState* const state = this_thread;
  return state != nullptr ? *state : MakeThisThread();
}

}  // namespace frugal::sim
