#include "bindings/adapter/journal.h"

#include <c10/core/GradMode.h>
#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "bindings/adapter/autograd_node.h"
#include "bindings/adapter/site_sampler.h"
#include "bindings/threads/forked_child.h"
#include "simulated_gpu/machine/control.h"

// Of the simulated machine; null where the GPU is not simulated.
#pragma weak frugal_sim_memory_used
#pragma weak frugal_sim_memory_of_driver
#pragma weak frugal_sim_set_observer

namespace frugal {
namespace {

int64_t GpuUsed(int gpu) {
  if (&frugal_sim_memory_used == nullptr) return -1;
  return static_cast<int64_t>(frugal_sim_memory_used(gpu) + frugal_sim_memory_of_driver(gpu));
}

// nullopt: of no interest.
std::optional<JournalEntry::Kind> KindOf(TraceEntry::Action action) {
  switch (action) {
    case TraceEntry::ALLOC:
      return JournalEntry::kAllocation;
    case TraceEntry::FREE_REQUESTED:
      return JournalEntry::kFreeRequested;
    case TraceEntry::FREE_COMPLETED:
      return JournalEntry::kFreeCompleted;
    case TraceEntry::SEGMENT_ALLOC:
    case TraceEntry::SEGMENT_MAP:
      return JournalEntry::kSegmentTaken;
    case TraceEntry::SEGMENT_FREE:
    case TraceEntry::SEGMENT_UNMAP:
      return JournalEntry::kSegmentGiven;
    case TraceEntry::OOM:
      return JournalEntry::kOutOfMemory;
    default:
      // Snapshots, and what newer versions of PyTorch have beside it.
      return std::nullopt;
  }
}

bool HasSite(JournalEntry::Kind kind) {
  return kind == JournalEntry::kAllocation || kind == JournalEntry::kSegmentTaken || kind == JournalEntry::kOutOfMemory;
}

// Of the calling thread, once for each allocation.
Asker DescribeAsker() {
  thread_local bool was_in_module = false;
  Asker asker{.site = static_cast<int32_t>(SiteSampler::CurrentSite()), .with_gradients = c10::GradMode::is_enabled()};
  asker.in_module = SiteTable::Instance().At(static_cast<SiteId>(asker.site)).in_module;
  const bool was_in = std::exchange(was_in_module, asker.in_module);
  asker.enters_module = asker.in_module && !was_in;
  return asker;
}

// Of whoever asked for what the event is about.
Asker AskerOf(JournalEntry::Kind kind) {
  const History::Operation* const operation = History::Operation::Current();
  if (operation != nullptr && operation->asker() != nullptr) return *operation->asker();
  if (kind == JournalEntry::kAllocation) return DescribeAsker();
  return {.site = static_cast<int32_t>(SiteSampler::CurrentSite())};
}

constexpr int kObservedCopy = 1;
constexpr int kObservedWorkspace = 2;

void OnSimulationEvent(int kind, uint64_t address, int64_t bytes) {
  if (kind == kObservedCopy) Journal::Instance().Label(address, bytes, "copied from host");
  if (kind == kObservedWorkspace) Journal::Instance().Label(address, bytes, "workspace");
}

}  // namespace

Journal& Journal::Instance() {
  static Journal* const journal = new Journal();
  return *journal;
}

Journal::Journal() : contents_(new Contents()) {}

Journal::Started Journal::Start() {
  absl::MutexLock lock(&start_mutex_);
  if (!watches_forks_) {
    pthread_atfork(nullptr, nullptr, [] { Instance().BecomeForkedChild(); });
    watches_forks_ = true;
  }
  if (is_on() && in_native_) return Started::kBefore;
  // Nodes of a backward pass are looked for whether or not our allocator is switched on.
  FindAutograd();
  TorchAllocator* const ours = TorchAllocator::Instance();
  caching::CUDAAllocator& native = ours == nullptr ? *caching::get() : ours->native();
  if (!in_native_ && native.initialized()) {
    native.attachAllocatorTraceTracker([this](const TraceEntry& event) { Note(event); });
    in_native_ = true;
  }
  if (ours != nullptr) Attach(*ours);
  is_on_.store(true, std::memory_order_relaxed);
  return in_native_ ? Started::kNow : Started::kAwaitsCuda;
}

void Journal::Attach(TorchAllocator& ours) {
  if (std::exchange(in_ours_, true)) return;
  ours.history().AttachTracker([this](const TraceEntry& event) { Note(event); }, DescribeAsker);
  ours.gpus().AttachHistory();
}

void Journal::AttachTo(TorchAllocator& ours) {
  absl::MutexLock lock(&start_mutex_);
  if (is_on()) Attach(ours);
}

bool Journal::ObserveSimulation() {
  if (&frugal_sim_set_observer == nullptr) return false;
  frugal_sim_set_observer(OnSimulationEvent);
  return true;
}

void Journal::Note(const TraceEntry& event) {
  if (!is_on()) return;
  const std::optional<JournalEntry::Kind> kind = KindOf(event.action_);
  if (!kind.has_value()) return;
  JournalEntry entry{.address = static_cast<uint64_t>(event.addr_),
                     .bytes = static_cast<int64_t>(event.size_),
                     .stream = reinterpret_cast<uint64_t>(event.stream_),
                     .gpu_used = GpuUsed(event.device_),
                     .site = static_cast<int32_t>(kNoSite),
                     .kind = *kind,
                     .gpu = event.device_};
  if (HasSite(*kind)) {
    const Asker asker = AskerOf(*kind);
    entry.site = asker.site;
    if (*kind == JournalEntry::kAllocation) {
      entry.with_gradients = asker.with_gradients;
      entry.in_module = asker.in_module;
      if (asker.enters_module) module_calls_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  Append(entry);
}

void Journal::Append(const JournalEntry& entry) {
  absl::MutexLock lock(&mutex_);
  contents_->entries.push_back(entry);
}

void Journal::AppendText(JournalEntry entry, absl::string_view text) {
  if (!is_on()) return;
  absl::MutexLock lock(&mutex_);
  const auto [place, is_new] = contents_->numbers.try_emplace(text, static_cast<int32_t>(contents_->texts.size()));
  if (is_new) contents_->texts.emplace_back(text);
  entry.site = place->second;
  contents_->entries.push_back(entry);
}

void Journal::Mark(absl::string_view text) { AppendText({.kind = JournalEntry::kMark}, text); }

void Journal::Label(uint64_t address, int64_t bytes, absl::string_view text) {
  AppendText({.address = address, .bytes = bytes, .kind = JournalEntry::kLabel}, text);
}

size_t Journal::Read(int64_t first, absl::Span<JournalEntry> entries) const {
  absl::MutexLock lock(&mutex_);
  const auto total = static_cast<int64_t>(contents_->entries.size());
  if (first < 0 || first >= total) return 0;
  const size_t count = std::min(entries.size(), static_cast<size_t>(total - first));
  std::copy_n(contents_->entries.begin() + first, count, entries.begin());
  return count;
}

absl::Status Journal::WriteTo(const char* path) const {
  const auto failure = [path] {
    return absl::UnavailableError(absl::StrCat("the journal cannot be written to ", path, ": ", std::strerror(errno)));
  };
  std::FILE* const file = std::fopen(path, "wb");
  if (file == nullptr) return failure();
  absl::Cleanup close = [file] { std::fclose(file); };
  {
    absl::MutexLock lock(&mutex_);
    for (const JournalEntry& entry : contents_->entries) {
      if (std::fwrite(&entry, sizeof(entry), 1, file) != 1) return failure();
    }
  }
  std::move(close).Cancel();
  return std::fclose(file) == 0 ? absl::OkStatus() : failure();
}

std::vector<std::string> Journal::Texts() const {
  absl::MutexLock lock(&mutex_);
  return contents_->texts;
}

void Journal::BecomeForkedChild() {
  is_on_.store(false, std::memory_order_relaxed);
  Renew(start_mutex_);
  Renew(mutex_);
  // Sites may have been noted without our allocator, whose own care for this comes with its installation.
  SiteTable::Instance().BecomeForkedChild();
  absl::MutexLock lock(&mutex_);
  contents_ = new Contents();
}

}  // namespace frugal
