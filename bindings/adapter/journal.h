// What PyTorch's allocator does, whichever it is (native, expandable segments, ours): each event with the site that
// asked and what the GPU holds by then, in one order. Off until it is started; then it grows for as long as the process
// runs, which suits a few steps of a program that is being looked at.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "bindings/adapter/torch_allocator.h"
#include "bindings/adapter/torch_compat.h"

namespace frugal {

// As a file of the journal has it, little-endian. Integers of fixed size, since others read it.
struct JournalEntry {
  static constexpr int16_t kNoGpu = -1;

  enum Kind : int8_t {
    kAllocation,
    kFreeRequested,
    kFreeCompleted,  // no stream uses the block any more
    kSegmentTaken,   // or mapped
    kSegmentGiven,   // back to the driver, or unmapped; PyTorch's allocators say so before they do it
    kOutOfMemory,    // `address`: bytes that the GPU has free
    kMark,           // `site`: number of a text
    kLabel,          // `site`: number of a text
  };

  uint64_t address = 0;
  int64_t bytes = 0;  // of a block, those that were asked for
  uint64_t stream = 0;
  int64_t gpu_used = -1;  // bytes of the GPU in use, without the driver's own; -1: the GPU is not simulated
  int32_t site = 0;       // that asks for a block or a segment; else kNoSite, which is 0
  Kind kind = kMark;
  // Of an allocation.
  bool with_gradients : 1 = false;  // its thread records for a backward pass
  bool in_module : 1 = false;       // within a call of nn.Module
  int16_t gpu = kNoGpu;             // kNoGpu for marks and labels
};
static_assert(sizeof(JournalEntry) == 40);

// Thread-safety: any thread. Lock order: PyTorch's and our locks of a GPU, and the simulated machine's, before this
// one's, which is held for no call of others.
class Journal {
 public:
  enum class Started {
    kNow,
    kBefore,
    kAwaitsCuda,  // marks and labels are taken; PyTorch's allocator listens only to those who come after CUDA's start
  };

  // The process's own, never destroyed.
  static Journal& Instance();

  // To be called again after kAwaitsCuda, once CUDA has started. Throws c10::Error where the allocator in PyTorch's
  // place has no trackers.
  Started Start();
  // `ours` was made. It may be called before Start, and after.
  void AttachTo(TorchAllocator& ours);
  // What the simulated machine tells of addresses becomes labels from now on. False: there is no such machine.
  static bool ObserveSimulation();

  void Mark(absl::string_view text);
  void Label(uint64_t address, int64_t bytes, absl::string_view text);

  // How often the program has entered a module from outside of any and allocated there.
  int64_t module_calls() const { return module_calls_.load(std::memory_order_relaxed); }
  // Copies entries from number `first` on; returns how many.
  size_t Read(int64_t first, absl::Span<JournalEntry> entries) const;
  absl::Status WriteTo(const char* path) const;
  // By their numbers; the same text has the same number.
  std::vector<std::string> Texts() const;

  // The child begins with an empty one, which is off.
  void BecomeForkedChild();

 private:
  // What fork leaves to the parent as a whole: one of its threads may be in the midst of a change.
  struct Contents {
    std::deque<JournalEntry> entries;
    std::vector<std::string> texts;
    absl::flat_hash_map<std::string, int32_t> numbers;
  };

  Journal();

  bool is_on() const { return is_on_.load(std::memory_order_relaxed); }
  void Note(const TraceEntry& event);
  void Append(const JournalEntry& entry);
  // Of a mark or a label, of which `entry` has all but the text.
  void AppendText(JournalEntry entry, absl::string_view text);
  void Attach(TorchAllocator& ours) ABSL_EXCLUSIVE_LOCKS_REQUIRED(start_mutex_);

  std::atomic<bool> is_on_{false};
  std::atomic<int64_t> module_calls_{0};
  absl::Mutex start_mutex_;
  bool watches_forks_ ABSL_GUARDED_BY(start_mutex_) = false;
  // Trackers cannot be taken away, so each allocator gets one for good.
  bool in_native_ ABSL_GUARDED_BY(start_mutex_) = false;
  bool in_ours_ ABSL_GUARDED_BY(start_mutex_) = false;

  mutable absl::Mutex mutex_;
  Contents* contents_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace frugal
