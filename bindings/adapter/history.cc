#include "bindings/adapter/history.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <iterator>
#include <string_view>

#include "allocator/port/thrown.h"
#include "bindings/adapter/private_pools.h"

namespace frugal {
namespace {

thread_local const History::Operation* current_operation = nullptr;

// The calling thread is telling of an event of `operation`, perhaps another thread's.
class OnBehalfOf {
 public:
  explicit OnBehalfOf(const void* operation)
      : before_(std::exchange(current_operation, static_cast<const History::Operation*>(operation))) {}
  ~OnBehalfOf() { current_operation = before_; }
  OnBehalfOf(const OnBehalfOf&) = delete;
  OnBehalfOf& operator=(const OnBehalfOf&) = delete;

 private:
  const History::Operation* const before_;
};

// Whether somebody waits for memory, who can be told that a tracker threw.
bool IsAskedFor(MemoryEvent::Kind kind) {
  return kind == MemoryEvent::Kind::kAllocate || kind == MemoryEvent::Kind::kMap ||
         kind == MemoryEvent::Kind::kSegmentAllocate;
}

std::vector<std::string>& CompileContexts() {
  thread_local std::vector<std::string> contexts;
  return contexts;
}

// As native writes it when torch.compile is not at work.
constexpr char kNoCompileContext[] = "N/A";

TraceEntry::Action ActionOf(MemoryEvent::Kind kind) {
  switch (kind) {
    case MemoryEvent::Kind::kAllocate:
      return TraceEntry::ALLOC;
    case MemoryEvent::Kind::kFreeRequested:
      return TraceEntry::FREE_REQUESTED;
    case MemoryEvent::Kind::kFreeCompleted:
      return TraceEntry::FREE_COMPLETED;
    case MemoryEvent::Kind::kMap:
      return TraceEntry::SEGMENT_MAP;
    case MemoryEvent::Kind::kUnmap:
      return TraceEntry::SEGMENT_UNMAP;
    case MemoryEvent::Kind::kSegmentAllocate:
      return TraceEntry::SEGMENT_ALLOC;
    case MemoryEvent::Kind::kSegmentFree:
      return TraceEntry::SEGMENT_FREE;
  }
  TORCH_INTERNAL_ASSERT(false, "unknown kind of memory event");
}

constexpr std::pair<std::string_view, TraceEntry::Action> kActionNames[] = {
    {"alloc", TraceEntry::ALLOC},
    {"free_requested", TraceEntry::FREE_REQUESTED},
    {"free_completed", TraceEntry::FREE_COMPLETED},
    {"segment_alloc", TraceEntry::SEGMENT_ALLOC},
    {"segment_free", TraceEntry::SEGMENT_FREE},
    {"segment_map", TraceEntry::SEGMENT_MAP},
    {"segment_unmap", TraceEntry::SEGMENT_UNMAP},
    {"snapshot", TraceEntry::SNAPSHOT},
    {"oom", TraceEntry::OOM},
};

// One bit for each action named. Native has seen the list before us and refuses names that it does not know.
uint32_t ActionMask(const std::vector<std::string>& names) {
  uint32_t mask = 0;
  for (const auto& [name, action] : kActionNames) {
    if (std::find(names.begin(), names.end(), name) != names.end()) mask |= 1u << action;
  }
  return mask;
}

}  // namespace

History::Operation::Operation(History& history, caching::CUDAAllocator& native, RecordContext level)
    : outer_(current_operation) {
  if (history.enabled()) {
    CreateContextFn create_context = history.create_context_.load(std::memory_order_acquire);
    if (create_context != nullptr && history.when_.load(std::memory_order_relaxed) >= level) {
      context_ = create_context();
    }
    notes_.user_metadata = UserMetadata(native);
  }
  const DescribeAskerFn describe = history.describe_asker_.load(std::memory_order_acquire);
  if (describe != nullptr && level == RecordContext::STATE) asker_ = describe();
  notes_.compile_context = CompileContexts().empty() ? kNoCompileContext : CompileContexts().back();
  current_operation = this;
}

History::Operation::~Operation() { current_operation = outer_; }

const History::Operation* History::Operation::Current() { return current_operation; }

History::NoteReader::NoteReader(History& history) : history_(history) {
  absl::MutexLock lock(&history_.mutex_);
  ++history_.note_readers_;
}

History::NoteReader::~NoteReader() {
  std::vector<BlockNote*> dropped;
  {
    absl::MutexLock lock(&history_.mutex_);
    if (--history_.note_readers_ == 0) dropped.swap(history_.dropped_notes_);
  }
  for (BlockNote* note : dropped) delete note;
}

void History::Configure(bool enabled, CreateContextFn create_context, size_t max_entries, RecordContext when,
                        bool clear, const std::vector<std::string>& skip_actions) {
  TORCH_CHECK(!enabled || when == RecordContext::NEVER || create_context != nullptr,
              "recording memory contexts needs a function that makes them");
  absl::MutexLock lock(&mutex_);
  max_entries_ = std::max<size_t>(max_entries, 1);
  skipped_actions_ = ActionMask(skip_actions);
  if (clear || !enabled) {
    traces_.clear();
    active_at_snapshots_.clear();
  }
  create_context_.store(create_context, std::memory_order_release);
  when_.store(enabled ? when : RecordContext::NEVER, std::memory_order_relaxed);
  enabled_.store(enabled, std::memory_order_relaxed);
  UpdateListening();
}

void History::AttachTracker(caching::AllocatorTraceTracker tracker, DescribeAskerFn describe) {
  if (describe != nullptr) describe_asker_.store(describe, std::memory_order_release);
  absl::MutexLock lock(&mutex_);
  auto trackers = std::make_shared<Trackers>(*trackers_);
  trackers->push_back(std::move(tracker));
  trackers_ = std::move(trackers);
  UpdateListening();
}

void History::UpdateListening() {
  const bool listening = enabled() || !trackers_->empty();
  if (listening) has_listened_.store(true, std::memory_order_release);
  listening_.store(listening, std::memory_order_relaxed);
}

void History::PushCompileContext(std::string context) { CompileContexts().push_back(std::move(context)); }

void History::PopCompileContext() {
  // A context that was pushed before we were installed is native's alone.
  if (!CompileContexts().empty()) CompileContexts().pop_back();
}

bool History::Skips(TraceEntry::Action action) const { return (skipped_actions_ >> action & 1u) != 0; }

void History::Record(TraceEntry::Action action, c10::DeviceIndex device, size_t address, size_t size,
                     cudaStream_t stream, const ContextPointer& fallback, MempoolId_t pool) {
  if (!listening()) return;
  const Operation* operation = Operation::Current();
  static const TraceNotes* const no_notes = new TraceNotes{kNoCompileContext, ""};
  ContextPointer context = operation != nullptr && operation->context() ? operation->context() : fallback;
  // RecordContext::STATE keeps contexts for live blocks only.
  if (when_.load(std::memory_order_relaxed) < RecordContext::ALLOC) context = nullptr;
  Append(MakeTraceEntry(action, device, address, size, stream, pool, std::move(context),
                        operation != nullptr ? operation->notes() : *no_notes));
}

#if FRUGAL_TORCH_MINOR >= 14
void History::RecordAnnotation(c10::DeviceIndex device, size_t address, size_t size, const std::string& metadata) {
  if (!listening()) return;
  const Operation* operation = Operation::Current();
  Append(MakeTraceEntry(TraceEntry::ANNOTATE, device, address, size, nullptr, kDefaultPool,
                        operation != nullptr ? operation->context() : nullptr, {kNoCompileContext, metadata}));
}
#endif

void History::Append(TraceEntry entry) {
  std::shared_ptr<const Trackers> trackers;
  {
    absl::MutexLock lock(&mutex_);
    trackers = trackers_;
  }
  Thrown failure;
  for (const caching::AllocatorTraceTracker& tracker : *trackers) {
    try {
      tracker(entry);
    } catch (...) {
      if (failure.is_empty()) failure.Catch();
    }
  }
  absl::ReleasableMutexLock lock(&mutex_);
  if (enabled() && !Skips(entry.action_)) {
    const size_t device = static_cast<size_t>(entry.device_);
    if (traces_.size() <= device) traces_.resize(device + 1);
    std::deque<TraceEntry>& trace = traces_[device];
    trace.push_back(std::move(entry));
    if (trace.size() > max_entries_) trace.pop_front();
  }
  lock.Release();
  if (!failure.is_empty()) failure.Throw();
}

void History::NoteFailure(std::string what) {
  absl::MutexLock lock(&mutex_);
  failures_.push_back(std::move(what));
  has_failures_.store(true, std::memory_order_relaxed);
}

void History::WarnOfFailures() {
  if (!has_failures_.load(std::memory_order_relaxed)) return;
  std::vector<std::string> failures;
  {
    absl::MutexLock lock(&mutex_);
    failures.swap(failures_);
    has_failures_.store(false, std::memory_order_relaxed);
  }
  for (const std::string& failure : failures) {
    TORCH_WARN("whoever listens to PyTorch's memory failed as memory was given back: ", failure);
  }
}

void History::NoteSnapshot(c10::DeviceIndex device, size_t active) {
  absl::MutexLock lock(&mutex_);
  if (!enabled() || Skips(TraceEntry::SNAPSHOT)) return;
  const size_t index = static_cast<size_t>(device);
  if (active_at_snapshots_.size() <= index) active_at_snapshots_.resize(index + 1);
  std::deque<size_t>& noted = active_at_snapshots_[index];
  noted.push_back(active);
  if (noted.size() > max_entries_) noted.pop_front();
}

void History::AddToSnapshotEntries(std::vector<TraceEntry>& native, size_t device) {
  if (active_at_snapshots_.size() <= device) return;
  // Either may have let older ones go, so they are matched from the newest on.
  const std::deque<size_t>& noted = active_at_snapshots_[device];
  auto active = noted.rbegin();
  for (auto entry = native.rbegin(); entry != native.rend() && active != noted.rend(); ++entry) {
    if (entry->action_ == TraceEntry::SNAPSHOT) entry->size_ += *active++;
  }
}

void History::MergeInto(std::vector<std::vector<TraceEntry>>& device_traces) {
  std::vector<std::deque<TraceEntry>> ours;
  size_t max_entries;
  {
    absl::MutexLock lock(&mutex_);
    for (size_t device = 0; device < device_traces.size(); ++device)
      AddToSnapshotEntries(device_traces[device], device);
    ours = traces_;
    max_entries = max_entries_;
  }
  const std::function<time_t(c10::approx_time_t)> to_nanoseconds = clock_.makeConverter();
  if (device_traces.size() < ours.size()) device_traces.resize(ours.size());
  for (size_t device = 0; device < ours.size(); ++device) {
    // Snapshots carry microseconds since the epoch.
    for (TraceEntry& entry : ours[device]) entry.time_.t_ = to_nanoseconds(entry.time_.approx_t_) / 1000;
    std::vector<TraceEntry>& merged = device_traces[device];
    const auto middle = merged.insert(merged.end(), std::make_move_iterator(ours[device].begin()),
                                      std::make_move_iterator(ours[device].end()));
    std::inplace_merge(merged.begin(), middle, merged.end(),
                       [](const TraceEntry& a, const TraceEntry& b) { return a.time_.t_ < b.time_.t_; });
    if (merged.size() > max_entries) {
      merged.erase(merged.begin(), merged.end() - static_cast<std::ptrdiff_t>(max_entries));
    }
  }
}

void History::Drop(BlockNote* note) {
  {
    absl::MutexLock lock(&mutex_);
    if (note_readers_ > 0) {
      dropped_notes_.push_back(note);
      return;
    }
  }
  // Contexts may be let go under our locks: PyTorch puts off what needs Python's.
  delete note;
}

void DeviceHistory::OnMemoryEvent(const MemoryEvent& event) {
  if (!history_.listening()) return;
  const OnBehalfOf operation(event.origin);
  const auto* note = static_cast<const BlockNote*>(event.annotation);
  try {
    history_.Record(ActionOf(event.kind), device_, event.address.value(), static_cast<size_t>(event.requested.count()),
                    reinterpret_cast<cudaStream_t>(event.stream.id), note != nullptr ? note->context : nullptr,
                    ToMempoolId(event.pool));
  } catch (const std::exception& failure) {
    if (IsAskedFor(event.kind)) throw;
    history_.NoteFailure(failure.what());
  }
}

}  // namespace frugal
