// The record of what our memory went through: PyTorch's memory history (trace entries and stack contexts) and its
// trace trackers, fed by the allocator's observer.

#pragma once

#include <c10/util/ApproximateClock.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "allocator/port/observer.h"
#include "bindings/adapter/torch_compat.h"
#include "bindings/threads/forked_child.h"

namespace frugal {

// The annotation of a block that was allocated while contexts were kept.
struct BlockNote {
  ContextPointer context;
};

// What is known of a thread that asks for memory, for those who are told of it in another.
struct Asker {
  int32_t site = 0;             // SiteId
  bool with_gradients = false;  // it records for a backward pass
  bool in_module = false;       // within a call of nn.Module
  bool enters_module = false;   // and was not when it asked last
};

// Thread-safety: any thread. No lock of a device is held while this one's is.
class History {
 public:
  // What the calling thread is doing to memory, gathered before any of our locks is taken: finding out the context
  // may need Python's. Every event until the end of the scope is recorded with it.
  class Operation {
   public:
    // Gathers the context if history keeps them from `level` on.
    Operation(History& history, caching::CUDAAllocator& native, RecordContext level);
    ~Operation();
    Operation(const Operation&) = delete;
    Operation& operator=(const Operation&) = delete;

    const ContextPointer& context() const { return context_; }
    const TraceNotes& notes() const { return notes_; }
    // null: nobody wants to know, or memory is not asked for.
    const Asker* asker() const { return asker_.has_value() ? &*asker_ : nullptr; }
    // The calling thread's innermost one, or that of the event that it is being told; null: neither.
    static const Operation* Current();

   private:
    ContextPointer context_;
    TraceNotes notes_;
    std::optional<Asker> asker_;
    const Operation* const outer_;
  };

  // While one exists, notes that were read from blocks stay valid even when the blocks are freed.
  class NoteReader {
   public:
    explicit NoteReader(History& history);
    ~NoteReader();
    NoteReader(const NoteReader&) = delete;
    NoteReader& operator=(const NoteReader&) = delete;

   private:
    History& history_;
  };

  // Somebody wants to know what happens: one load on the way of every allocation.
  bool listening() const { return listening_.load(std::memory_order_relaxed); }
  // Somebody wanted to at some time, so blocks may carry notes.
  bool has_listened() const { return has_listened_.load(std::memory_order_acquire); }

  // The arguments of CUDAAllocator::recordHistory.
  void Configure(bool enabled, CreateContextFn create_context, size_t max_entries, RecordContext when, bool clear,
                 const std::vector<std::string>& skip_actions);
  bool enabled() const { return enabled_.load(std::memory_order_relaxed); }
  using DescribeAskerFn = Asker (*)();
  // Unless `describe` is null, operations that ask for memory keep what it says of their thread from now on.
  void AttachTracker(caching::AllocatorTraceTracker tracker, DescribeAskerFn describe = nullptr);

  // The calling thread's compile contexts (torch.compile names what it runs).
  static void PushCompileContext(std::string context);
  static void PopCompileContext();

  // Adds an entry with the context of the current operation, or else with `fallback`.
  void Record(TraceEntry::Action action, c10::DeviceIndex device, size_t address, size_t size, cudaStream_t stream,
              const ContextPointer& fallback, MempoolId_t pool = kDefaultPool);
#if FRUGAL_TORCH_MINOR >= 14
  // An entry of its own that describes the block at `address`.
  void RecordAnnotation(c10::DeviceIndex device, size_t address, size_t size, const std::string& metadata);
#endif

  // A tracker threw where nobody can be told, since memory was given back.
  void NoteFailure(std::string what);
  // Warns of what was noted. No lock may be held: warnings may need Python's.
  void WarnOfFailures();

  // A snapshot was taken while `active` bytes of ours were in use; native has recorded it, with its own bytes alone.
  void NoteSnapshot(c10::DeviceIndex device, size_t active);

  // Puts our entries between those of a snapshot taken of native, in the order of time, and keeps the newest as the
  // limit says. Native's entries of snapshots get our bytes added.
  void MergeInto(std::vector<std::vector<TraceEntry>>& device_traces);

  void BecomeForkedChild() { Renew(mutex_); }

  // For DeviceHistory: the block's owner dropped it.
  void Drop(BlockNote* note);

 private:
  using Trackers = std::vector<caching::AllocatorTraceTracker>;

  // Tells the trackers, with no lock held, since they may ask for memory. Each is told whatever others throw; then the
  // first that was thrown is thrown.
  void Append(TraceEntry entry) ABSL_LOCKS_EXCLUDED(mutex_);
  bool Skips(TraceEntry::Action action) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void UpdateListening() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddToSnapshotEntries(std::vector<TraceEntry>& native, size_t device) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::atomic<bool> listening_{false};
  std::atomic<bool> has_listened_{false};
  std::atomic<bool> enabled_{false};
  std::atomic<RecordContext> when_{RecordContext::NEVER};
  std::atomic<CreateContextFn> create_context_{nullptr};
  std::atomic<DescribeAskerFn> describe_asker_{nullptr};
  std::atomic<bool> has_failures_{false};
  c10::ApproximateClockToUnixTimeConverter clock_;

  absl::Mutex mutex_;
  size_t max_entries_ ABSL_GUARDED_BY(mutex_) = 1;
  uint32_t skipped_actions_ ABSL_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<const Trackers> trackers_ ABSL_GUARDED_BY(mutex_) = std::make_shared<Trackers>();
  // By device, the oldest first.
  std::vector<std::deque<TraceEntry>> traces_ ABSL_GUARDED_BY(mutex_);
  // By device, the bytes of ours that were in use at each snapshot, the oldest first.
  std::vector<std::deque<size_t>> active_at_snapshots_ ABSL_GUARDED_BY(mutex_);
  int note_readers_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<BlockNote*> dropped_notes_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> failures_ ABSL_GUARDED_BY(mutex_);
};

// One device's ear: turns the policy's events into trace entries.
class DeviceHistory final : public Observer {
 public:
  DeviceHistory(History& history, c10::DeviceIndex device) : history_(history), device_(device) {}

  void OnMemoryEvent(const MemoryEvent& event) override;
  void DropAnnotation(void* annotation) override { history_.Drop(static_cast<BlockNote*>(annotation)); }
  const void* Origin() const override { return History::Operation::Current(); }

 private:
  History& history_;
  const c10::DeviceIndex device_;
};

}  // namespace frugal
