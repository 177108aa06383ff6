// Epochs for a program that neither steps an optimizer nor says where its epochs end: windows of calls of its modules.
//
// A call is known by the memory that it asks for: the first recorded allocation of a thread within a call of nn.Module,
// after one outside of any, or the thread's first. No hook of PyTorch's is needed, which would make every call of every
// module slower and torch.compile compile again. Calls between which the program allocates nothing count as one.

#pragma once

#include <atomic>
#include <cstdint>

namespace frugal {

// Thread-safety: any thread.
class ModuleCalls {
 public:
  // An epoch is one call at first, and twice as many whenever there are so many epochs.
  static constexpr int64_t kMostWindows = 32;

  // Those who keep the epochs.
  struct Epochs {
    // Ends an epoch of every GPU; returns how many have ended.
    int64_t (*end)();
    // Makes one epoch of each two.
    void (*halve)();
  };

  // Calls end these epochs from now on; null: no more. Null at first. `epochs` lives as long as the process.
  static void SetOn(const Epochs* epochs);
  // From now on `schedule(call, nullptr)` is called when calls have ended an epoch, on any thread, and not again before
  // that call has begun. Null: nobody wants to know.
  static void SetListener(int (*schedule)(int (*call)(void*), void*), int (*call)(void*));
  // A call has begun. May end an epoch of every GPU, so none of their locks may be held.
  static void Note() {
    if (epochs_.load(std::memory_order_relaxed) != nullptr) Count();
  }
  // How many calls make an epoch now; 0: off.
  static int64_t window();

 private:
  static void Count();

  static std::atomic<const Epochs*> epochs_;
};

}  // namespace frugal
