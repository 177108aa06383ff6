#include "tests/faults/faulted_program.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace frugal {
namespace {

constexpr Stream kCaptured{99};
constexpr Bytes kIdleWanted = MiB(6);
constexpr Bytes kTrimmed = MiB(8);

}  // namespace

Bytes ViewsDevice::WholeIn(Address start, Bytes size) const {
  Bytes whole;
  for (auto view = views_.lower_bound(start); view != views_.end() && view->first < start + size; ++view) {
    if (view->first + view->second <= start + size) whole += view->second;
  }
  return whole;
}

absl::StatusOr<PhysicalHandle> ViewsDevice::Create(Bytes size) {
  absl::StatusOr<PhysicalHandle> handle = ForwardingDevice::Create(size);
  if (handle.ok()) large_handles_ += size > kPageSize;
  return handle;
}

absl::Status ViewsDevice::Map(Address start, Bytes size, PhysicalHandle handle) {
  absl::Status status = ForwardingDevice::Map(start, size, handle);
  if (status.ok()) views_[start] = size;
  return status;
}

absl::Status ViewsDevice::Unmap(Address start, Bytes size) {
  absl::Status status = ForwardingDevice::Unmap(start, size);
  if (status.ok()) views_.erase(views_.lower_bound(start), views_.lower_bound(start + size));
  return status;
}

Counts& Counts::operator+=(const Counts& more) {
  operations += more.operations;
  faults += more.faults;
  served += more.served;
  refused += more.refused;
  tight += more.tight;
  accesses += more.accesses;
  others += more.others;
  large_handles += more.large_handles;
  return *this;
}

void Counts::Print(const std::string& what, Bytes memory) const {
  std::printf("%s\n", absl::StrCat("COUNTS ", what, ", ", memory.count() / MiB(1).count(), " MiB: ", faults,
                                   " faults in ", operations, " operations: ", served, " requests served, ", refused,
                                   " refused; ", others, " in others; ", tight, " requests later did not fit; ",
                                   accesses, " accesses in order; ", large_handles, " handles of several pages")
                          .c_str());
}

FaultedProgram::FaultedProgram(const History& history, const Options& options)
    : history_(history),
      options_(options),
      device_({.memory = options.memory, .virtual_memory = options.virtual_memory, .order = true}),
      views_(device_),
      allocator_(std::make_unique<DeviceAllocator>(views_, directory_, nullptr)),
      blocks_(history.allocation_count) {
  // The books are checked where it tells most.
  allocator_->settings().SetCheckLevel(CheckLevel::kFast);
  allocator_->settings().SetOptions(options.policy);
  if (!device_.SetFaults(options.faults)) Problem(absl::StrCat("no fault plan: ", options.faults));
}

void FaultedProgram::Play() {
  for (now_ = 0; now_ < std::ssize(history_.events) && problems_.empty(); ++now_) {
    if (now_ == options_.faults_end) EndFaults();
    device_.AdvanceTo(sim::Nanoseconds(now_));
    Interlude();
    Apply(history_.events[static_cast<size_t>(now_)]);
    if (IsTimeToCheck()) CheckBooks();
  }
  peak_ = device_.peak();
  counts_.large_handles = views_.large_handles();
  if (problems_.empty()) GiveEverythingBack();
  EndFaults();
}

bool FaultedProgram::IsTimeToCheck() {
  // Of whole recordings the books are long, and what a fault has broken shows soon, or whenever one looks.
  constexpr int64_t kSoon = 50;
  const int64_t faults = counts_.faults + static_cast<int64_t>(device_.faults());
  if (faults > faults_seen_) latest_fault_ = now_;
  faults_seen_ = faults;
  return faults > 0 && (now_ < latest_fault_ + kSoon || now_ % (1 + std::ssize(history_.events) / 500) == 0);
}

void FaultedProgram::EndFaults() {
  counts_.faults += static_cast<int64_t>(device_.faults());
  if (!device_.SetFaults("")) Problem("the plan does not end");
}

void FaultedProgram::Apply(const HistoryEvent& event) {
  if (event.frees) {
    Free(event);
  } else {
    Allocate(event);
  }
}

void FaultedProgram::Allocate(const HistoryEvent& event) {
  const uint64_t faults = device_.faults();
  absl::StatusOr<Allocation> block = TryAllocate(event.size, event.stream);
  if (device_.faults() > faults) ++(block.ok() ? counts_.served : counts_.refused);
  if (!block.ok()) {
    if (device_.faults() == faults) {
      // After a failure memory lies otherwise than it would have, so the last request that fits may not.
      if (CouldBeServed(event.size)) Problem(absl::StrCat("no call failed: ", block.status().ToString()));
      ++counts_.tight;
      return;
    }
    if (options_.fails_again_and_again) return;
    if (!absl::IsResourceExhausted(block.status())) Problem(absl::StrCat("seen: ", block.status().ToString()));
    CheckBooks();
    block = TryAllocate(event.size, event.stream);
    if (!block.ok() && CouldBeServed(event.size)) {
      return Problem(absl::StrCat("made again: ", block.status().ToString()));
    }
    if (!block.ok()) {
      ++counts_.tight;
      return;
    }
  }
  ExpectNoOverlap(block->address, block->size);
  blocks_[event.allocation] = Live{block->address, block->size, event.stream};
  live_[block->address] = block->size;
  live_bytes_ += block->size;
  device_.MakeBusyUntil(event.stream, sim::Nanoseconds(now_ + history_.stream_lag));
  device_.Touch(event.stream, block->address, block->size, /*writes=*/true, "first use");
}

bool FaultedProgram::CouldBeServed(Bytes size) const {
  // Segments are of no use to requests that are larger.
  if (!options_.virtual_memory) return false;
  Bytes found = options_.memory;
  for (const SegmentView& segment : allocator_->inspect().Snapshot()) {
    found -= segment.size;
    for (const BlockView& block : segment.blocks) {
      if (block.state == BlockView::State::kFree) found += views_.WholeIn(block.address, block.size);
    }
  }
  return PagesCovering(size).bytes() <= found;
}

absl::StatusOr<Allocation> FaultedProgram::TryAllocate(Bytes size, Stream stream) {
  ++counts_.operations;
  return allocator_->Allocate(size, stream);
}

void FaultedProgram::Free(const HistoryEvent& event) {
  std::optional<Live>& block = blocks_[event.allocation];
  if (!block.has_value()) return;  // Its request was refused.
  device_.MakeBusyUntil(block->stream, sim::Nanoseconds(now_ + history_.stream_lag));
  device_.Touch(block->stream, block->address, block->size, /*writes=*/true, "last use");
  if (event.ready > 0) {
    device_.Order(event.late_stream, block->stream);
    device_.Touch(event.late_stream, block->address, block->size, /*writes=*/false, "late use");
    device_.MakeBusyUntil(event.late_stream, sim::Nanoseconds(event.ready));
    MustSucceed("RecordStream", [&] { return allocator_->RecordStream(block->address, event.late_stream); });
  }
  MustSucceed("Free", [&] { return allocator_->Free(block->address).status(); });
  live_.erase(block->address);
  live_bytes_ -= block->size;
  block.reset();
}

void FaultedProgram::Interlude() {
  const int64_t events = std::ssize(history_.events);
  // While it is captured, a stream that used a block cannot be marked.
  if (now_ == events / 4) {
    device_.BeginCapture(kCaptured);
    if (!live_.empty()) {
      MustSucceed("RecordStream", [&] { return allocator_->RecordStream(live_.begin()->first, kCaptured); });
    }
  }
  if (now_ == events / 2) device_.EndCapture(kCaptured);
  if (now_ % 40 == 10) MayFailAgainAndAgain("MarkUse", [&] { return allocator_->MarkUse(); });
  if (now_ % 40 == 30) MayFailAgainAndAgain("ReturnIdle", [&] { return allocator_->ReturnIdle(kIdleWanted).status(); });
  if (now_ % 60 == 50) MayFailAgainAndAgain("Trim", [&] { return allocator_->Trim(kTrimmed).status(); });
}

void FaultedProgram::GiveEverythingBack() {
  for (std::optional<Live>& block : blocks_) {
    if (block.has_value()) MustSucceed("Free", [&] { return allocator_->Free(block->address).status(); });
    block.reset();
  }
  live_.clear();
  live_bytes_ = Bytes(0);
  device_.AdvanceTo(sim::Nanoseconds(now_ + std::ssize(history_.events) + history_.stream_lag));
  const auto trim = [&] { return allocator_->Trim().status(); };
  // What a failing call left behind is found again.
  if (!MayFailAgainAndAgain("Trim", trim)) MayFailAgainAndAgain("second Trim", trim);
  EndFaults();
  MustSucceed("last Trim", trim);
  CheckBooks();
  if (device_.used() != Bytes(0)) Problem(absl::StrCat("lost: ", device_.used().count(), " bytes"));
  AllocateWholeDevice();
  allocator_.reset();
  if (device_.used() != Bytes(0)) Problem(absl::StrCat("left behind: ", device_.used().count(), " bytes"));
  if (device_.order_violations() != 0) Problem(device_.order_report());
  counts_.accesses = static_cast<int64_t>(device_.order_accesses());
  if (device_.live_events() != 0) Problem(absl::StrCat("left behind: ", device_.live_events(), " events"));
}

void FaultedProgram::AllocateWholeDevice() {
  absl::StatusOr<Allocation> whole = TryAllocate(options_.memory, kCaptured);
  if (!whole.ok()) return Problem(absl::StrCat("all of it in one piece: ", whole.status().ToString()));
  MustSucceed("Free", [&] { return allocator_->Free(whole->address).status(); });
  MustSucceed("Trim", [&] { return allocator_->Trim().status(); });
}

template <typename Operation>
bool FaultedProgram::MayFailAgainAndAgain(const char* name, Operation operation) {
  const uint64_t faults = device_.faults();
  ++counts_.operations;
  const absl::Status status = operation();
  const uint64_t failed = device_.faults() - faults;
  if (failed > 0) ++counts_.others;
  if (status.ok()) return true;
  if (failed < 2) Problem(absl::StrCat(name, ", ", failed, " calls failed: ", status.ToString()));
  return false;
}

template <typename Operation>
void FaultedProgram::MustSucceed(const char* name, Operation operation) {
  const uint64_t faults = device_.faults();
  ++counts_.operations;
  const absl::Status status = operation();
  if (device_.faults() > faults) ++counts_.others;
  if (!status.ok()) Problem(absl::StrCat(name, ": ", status.ToString()));
}

void FaultedProgram::CheckBooks() {
  allocator_->inspect().CheckInvariants();
  const Statistics statistics = allocator_->GetStatistics();
  const Bytes reserved(statistics.reserved_bytes[SizeGroup::kAll].current);
  const Bytes allocated(statistics.allocated_bytes[SizeGroup::kAll].current);
  if (allocated != live_bytes_) Problem(absl::StrCat(allocated.count(), " bytes allocated, not ", live_bytes_.count()));
  // Reserved and spares, which CheckInvariants() has compared with the handles.
  const Bytes held = allocator_->inspect().Held();
  if (device_.used() != held || held < reserved) {
    Problem(absl::StrCat(device_.used().count(), " bytes used of the device, ", held.count(), " held, ",
                         reserved.count(), " reserved"));
  }
}

void FaultedProgram::ExpectNoOverlap(Address start, Bytes size) {
  const auto after = live_.lower_bound(start);
  const bool clear = (after == live_.end() || start + size <= after->first) &&
                     (after == live_.begin() || std::prev(after)->first + std::prev(after)->second <= start);
  if (!clear) Problem("handed out twice");
}

void FaultedProgram::Problem(std::string what) {
  problems_.push_back(absl::StrCat(history_.name, ", event ", now_, ", ", options_.faults, ": ", what));
}

FaultedProgram::Options FittingOptions(const History& history, bool virtual_memory, const PolicyOptions& policy) {
  FaultedProgram::Options options;
  options.virtual_memory = virtual_memory;
  options.policy = policy;
  Bytes memory = PeakOf(history);
  while (true) {
    options.memory = PagesCovering(memory).bytes();
    FaultedProgram program(history, options);
    program.Play();
    if (program.problems().empty() && program.counts().tight == 0) return options;
    memory = options.memory + std::max(kPageSize, Bytes(memory.count() / 100));
  }
}

PolicyOptions LargeHandles() {
  PolicyOptions options;
  options.waste_part = 1;
  options.request_part = 1;
  options.piece_part = 1;
  return options;
}

const std::vector<sim::CallKind>& FailingKinds() {
  static const auto* kinds = [] {
    auto* made = new std::vector<sim::CallKind>;
    for (size_t i = 0; i < sim::kCallKindNames.size(); ++i) {
      const auto kind = static_cast<sim::CallKind>(i);
      if (kind != sim::CallKind::kUnmapWhileBusy && kind != sim::CallKind::kLaunch) made->push_back(kind);
    }
    return made;
  }();
  return *kinds;
}

std::string NameOf(sim::CallKind kind) { return std::string(sim::kCallKindNames[static_cast<size_t>(kind)]); }

const std::vector<std::string>& FailingErrors() {
  static const auto* errors = new std::vector<std::string>{
      "out_of_memory", "invalid_value", "unknown", "capture_invalidated", "late_out_of_memory", "late_launch_failed"};
  return *errors;
}

}  // namespace frugal
