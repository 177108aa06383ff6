#include "tests/shadow/shadow_run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "simulated_gpu/machine/call_kind.h"

namespace frugal::shadow {
namespace {

// With fast checks the statistics are compared once in so many operations.
constexpr int64_t kStatisticsEvery = 256;

Stream StreamOf(uint8_t number) { return Stream{number}; }

Bytes BytesOf(int64_t pages) { return kPageSize * pages; }

MemorySource SourceOf(const Operation& operation) {
  if (operation.kind == OperationKind::kAllocateSegment) return {.kind = MemoryKind::kSegment};
  if (operation.kind != OperationKind::kAllocateInPool) return {};
  return {{0, operation.pool}, operation.pool % 2 == 1 ? MemoryKind::kFixed : MemoryKind::kMovable};
}

}  // namespace

ShadowRun::ShadowRun(const Program& program, CheckLevel level, const Between& between)
    : level_(level),
      movable_(program.movable),
      device_bytes_(BytesOf(program.pages)),
      device_({.memory = BytesOf(program.pages), .virtual_memory = program.movable}),
      memory_(order_, verdict_),
      watched_(device_, memory_, order_),
      between_(between == nullptr ? nullptr : between(watched_)) {
  Device& device = between_ == nullptr ? static_cast<Device&>(watched_) : *between_;
  allocator_ = std::make_unique<DeviceAllocator>(device, directory_, static_cast<Reclaimer*>(this));
  if (level_ == CheckLevel::kFull) allocator_->settings().SetObserver(this);
}

ShadowRun::~ShadowRun() {
  // What is not as it must be cannot be taken down in order.
  if (failed()) static_cast<void>(allocator_.release());
}

Tally ShadowRun::tally() const {
  Tally tally = tally_;
  tally.faults = faults();
  tally.large = memory_.large();
  for (size_t kind = 0; kind < sim::kCallKindNames.size(); ++kind) {
    tally.device_calls += static_cast<int64_t>(device_.calls(static_cast<sim::CallKind>(kind)));
  }
  return tally;
}

void ShadowRun::Step(const Operation& operation) {
  if (failed()) return;
  if (meanwhile_left_ > 0) {
    --meanwhile_left_;
    // The next miss that comes to reclaiming does them; if there is none, the end.
    meanwhile_.push_back(operation);
    return;
  }
  Do(operation);
}

void ShadowRun::Do(const Operation& operation) {
  ++tally_.operations;
  switch (operation.kind) {
    case OperationKind::kAllocate:
    case OperationKind::kAllocateSegment:
    case OperationKind::kAllocateInPool:
      Allocate(operation);
      break;
    case OperationKind::kFree:
      Free(operation.block);
      break;
    case OperationKind::kFreeInside:
      FreeInside(operation);
      break;
    case OperationKind::kUse:
      RecordStream(operation);
      Work(operation.stream, operation.amount);
      break;
    case OperationKind::kRecordStream:
      RecordStream(operation);
      break;
    case OperationKind::kWork:
      Work(operation.stream, operation.amount);
      break;
    case OperationKind::kPass:
      device_.AdvanceTo(device_.now() + sim::Nanoseconds(operation.amount));
      break;
    case OperationKind::kBeginCapture:
    case OperationKind::kEndCapture:
      SetCaptured(operation.stream, operation.kind == OperationKind::kBeginCapture);
      break;
    case OperationKind::kGarbage:
      garbage_.push_back(operation.block);
      break;
    case OperationKind::kMeanwhile:
      meanwhile_left_ = operation.amount;
      break;
    default:
      DoSeldom(operation);
  }
  if (level_ == CheckLevel::kFull) allocator_->inspect().CheckInvariants();
  const bool is_time = level_ == CheckLevel::kFull || tally_.operations % kStatisticsEvery == 0;
  if (level_ != CheckLevel::kOff && is_time) CheckStatistics();
}

void ShadowRun::DoSeldom(const Operation& operation) {
  switch (operation.kind) {
    case OperationKind::kTrim:
      return Trim(operation.amount == 0 ? kUnlimited : BytesOf(operation.amount));
    case OperationKind::kMarkUse: {
      const int64_t faults_before = faults();
      idle_mark_ = order_.launched();
      return ExpectOkUnlessFailedTwice("MarkUse", allocator_->MarkUse(), faults_before);
    }
    case OperationKind::kReturnIdle:
      return ReturnIdle(BytesOf(operation.amount));
    case OperationKind::kSetLimit:
      return SetLimit(operation.amount == 0 ? kUnlimited : BytesOf(operation.amount), BytesOf(operation.second));
    case OperationKind::kFail:
    case OperationKind::kFailAll:
      return Fail(operation);
    case OperationKind::kKeepPool:
      return KeepPool(operation.pool);
    case OperationKind::kReleasePool:
      return ReleasePool(operation.pool);
    case OperationKind::kEndEpoch:
      return EndEpoch(operation.amount);
    case OperationKind::kSnapshot:
      return blocks_.CheckSnapshot(*allocator_, faults() > faults_at_trim_, verdict_);
    case OperationKind::kResetPeaks:
      allocator_->ResetPeakStatistics();
      blocks_.ResetPeak();
      return;
    case OperationKind::kCache:
      return Cache(Pages(operation.amount));
    case OperationKind::kSetOption:
      return SetOption(operation);
    default:
      return DoSleep(operation);
  }
}

// --- Blocks.

void ShadowRun::Allocate(const Operation& operation) {
  if (blocks_.Find(operation.block) != nullptr || freed_asleep_.contains(operation.block)) return;
  const Stream stream = StreamOf(operation.stream);
  const Bytes requested(std::max<int64_t>(operation.amount, 1));
  const Bytes least(operation.second);
  const Sample sample{records_births_ ? SiteId{1 + operation.block % 5} : kUnsampled};
  int64_t faults_before = faults();
  const Bytes held = memory_.held();
  const bool is_alone = meanwhile_.empty();
  const MemorySource source = SourceOf(operation);
  has_segments_ |= source.kind == MemoryKind::kSegment;
  const auto allocate = [&] {
    void* const annotation = AnnotationOf(operation.block);
    if (operation.kind != OperationKind::kAllocate) {
      return allocator_->AllocateFrom(source, requested, stream, annotation, least, sample);
    }
    return allocator_->Allocate(requested, stream, annotation, least, sample);
  };
  const Bytes size = RoundUp(std::max(requested, least), kGrain);
  absl::StatusOr<Allocation> allocation = allocate();
  if (!allocation.ok() && faults() > faults_before) {
    CheckRefused(allocation.status(), size, stream, source, faults_before);
    // Made again it is to be served.
    faults_before = faults();
    allocation = allocate();
  }
  if (!source.pool.is_default()) pools_.insert(operation.pool);
  if (!allocation.ok()) return CheckRefused(allocation.status(), size, stream, source, faults_before);
  ++tally_.allocations;
  if (is_alone && limit_ != kUnlimited && memory_.held() > held && memory_.held() + others_ > limit_) {
    verdict_.Fail(absl::StrFormat("%d bytes are held beside %d of others, above the limit of %d",
                                  memory_.held().count(), others_.count(), limit_.count()));
  }
  verdict_.Expect("the size of a block", allocation->size.count(), size.count());
  verdict_.Expect("an address modulo 512", static_cast<int64_t>(allocation->address.value() % 512), 0);
  Enter(operation.block, LiveBlock{allocation->address, size, requested, stream, {}}, *allocation);
}

void ShadowRun::Enter(uint32_t name, const LiveBlock& block, const Allocation& allocation) {
  ++annotations_;
  blocks_.Add(name, block);
  if (level_ != CheckLevel::kOff) memory_.HandOut(name, allocation.address, allocation.size, block.stream);
}

void ShadowRun::CheckRefused(const absl::Status& status, Bytes size, Stream stream, MemorySource source,
                             int64_t faults_before) {
  const int64_t failed = faults() - faults_before;
  if (absl::IsResourceExhausted(status)) {
    ++tally_.out_of_memory;
    if (meanwhile_.empty()) LiveBlocks::CheckNothingFits(*allocator_, size, stream, source, verdict_);
    if (failed > 0 || level_ == CheckLevel::kOff || !CouldBeFound(size, stream)) return;
    return verdict_.Fail(absl::StrFormat(
        "out of memory for %d bytes on stream %d, with %d pages that nobody uses and %d bytes to be had of the device",
        size.count(), stream.id, memory_.UnusedPages().count(), Headroom().count()));
  }
  // Who meets two failures in one request may pass the driver's own status on.
  if (failed < 2) verdict_.Fail("Allocate returned " + status.ToString());
}

Bytes ShadowRun::Headroom() const {
  const Bytes within = limit_ == kUnlimited ? kUnlimited : limit_ - others_ - memory_.held();
  const Bytes headroom = std::min(within, device_bytes_ - device_.used());
  // What is above the limit goes back before one kind of memory serves the other.
  return has_segments_ ? headroom : std::max(Bytes(0), headroom);
}

bool ShadowRun::CouldBeFound(Bytes size, Stream stream) const {
  // What could not be marked with an event, the allocator cannot know to be over, whatever else the host has waited
  // for.
  if (AnyCaptured() && (has_unmarked_ || has_segments_ || !movable_)) return false;
  if (!movable_) return RoundUp(size, kPageSize) <= Headroom() + memory_.UnusedSegments(captured_);
  return PagesCovering(size) <= memory_.FreePages(stream, captured_) + Pages(Headroom().count() / kPageSize.count());
}

void ShadowRun::Free(uint32_t name) {
  if (blocks_.Find(name) == nullptr) return;
  const LiveBlock block = blocks_.Remove(name);
  if (level_ != CheckLevel::kOff && !FreeAsleep(name, block)) {
    // Whoever may use the block does so until the last moment.
    Positions uses;
    order_.Launch(block.stream, uses);
    for (uint8_t i = 0; i < kStreams; ++i) {
      if (block.used_by[i]) order_.Launch(StreamOf(i + 1), uses);
    }
    memory_.TakeBack(name, block.address, block.size, uses);
  }
  const int64_t faults_before = faults();
  const absl::StatusOr<Bytes> freed = allocator_->Free(block.address);
  const bool has_others = std::find(block.used_by.begin(), block.used_by.end(), true) != block.used_by.end();
  if (has_others && (AnyCaptured() || faults() > faults_before)) has_unmarked_ = true;
  if (!freed.ok()) return verdict_.Fail(absl::StrFormat("Free of #%d: %s", name, freed.status().ToString()));
  verdict_.Expect("the size of the block that was freed", freed->count(), block.size.count());
}

void ShadowRun::FreeInside(const Operation& operation) {
  const LiveBlock* const block = blocks_.Find(operation.block);
  if (block == nullptr) return;
  const Address address = block->address + Bytes(operation.amount % block->size.count());
  if (address == block->address) return;
  const Bytes before = blocks_.bytes();
  if (!absl::IsNotFound(allocator_->Free(address).status())) verdict_.Fail("freed what was not handed out");
  if (!absl::IsNotFound(allocator_->RecordStream(address, block->stream))) verdict_.Fail("recorded what is not there");
  const std::optional<BlockView> view = allocator_->inspect().FindBlock(address);
  if (!view.has_value()) return verdict_.Fail("a block was not found by an address inside of it");
  verdict_.Expect("where the block starts", static_cast<int64_t>(view->address.value()),
                  static_cast<int64_t>(block->address.value()));
  verdict_.Expect("bytes handed out", blocks_.bytes().count(), before.count());
}

void ShadowRun::RecordStream(const Operation& operation) {
  LiveBlock* const block = blocks_.Find(operation.block);
  if (block == nullptr) return;
  const Stream stream = StreamOf(operation.stream);
  const absl::Status status = allocator_->RecordStream(block->address, stream);
  if (!status.ok()) return verdict_.Fail("RecordStream: " + status.ToString());
  if (stream != block->stream) block->used_by[operation.stream - 1] = true;
  const std::vector<Stream> streams = allocator_->inspect().StreamsOf(block->address);
  verdict_.Expect("the number of the block's streams", std::ssize(streams),
                  1 + std::count(block->used_by.begin(), block->used_by.end(), true));
  for (size_t i = 0; i < streams.size(); ++i) {
    const bool is_its = i == 0 ? streams[i] == block->stream : block->used_by[streams[i].id - 1];
    if (!is_its) verdict_.Fail("StreamsOf names a stream that is not the block's");
  }
}

// --- Streams.

void ShadowRun::Work(uint8_t stream, int64_t duration) {
  if (captured_[stream - 1]) return;
  device_.MakeBusyUntil(StreamOf(stream), device_.now() + sim::Nanoseconds(duration));
}

void ShadowRun::SetCaptured(uint8_t stream, bool captured) {
  if (captured_[stream - 1] == captured) return;
  captured_[stream - 1] = captured;
  if (captured) {
    device_.BeginCapture(StreamOf(stream));
  } else {
    device_.EndCapture(StreamOf(stream));
  }
}

// --- Memory that goes back to the device.

void ShadowRun::Trim(Bytes enough) {
  const int64_t faults_before = faults();
  const Bytes before = memory_.held();
  const absl::StatusOr<Bytes> returned = allocator_->Trim(enough);
  ExpectOkUnlessFailedTwice("Trim", returned.status(), faults_before);
  if (!returned.ok()) return;
  verdict_.Expect("what Trim returned", returned->count(), (before - memory_.held()).count());
  const bool is_all = enough == kUnlimited && faults() == faults_before && !AnyCaptured();
  if (!is_all || level_ == CheckLevel::kOff) return;
  faults_at_trim_ = faults_before;
  verdict_.Expect("pages without a byte in use after a trim", memory_.UnusedPages().count(), 0);
}

void ShadowRun::ReturnIdle(Bytes enough) {
  const int64_t faults_before = faults();
  const Bytes before = memory_.held();
  const sim::Nanoseconds start = device_.now();
  if (level_ != CheckLevel::kOff) memory_.BeginIdle(idle_mark_);
  const absl::StatusOr<Bytes> returned = allocator_->ReturnIdle(enough);
  memory_.EndIdle();
  ExpectOkUnlessFailedTwice("ReturnIdle", returned.status(), faults_before);
  if (!returned.ok()) return;
  verdict_.Expect("what ReturnIdle returned", returned->count(), (before - memory_.held()).count());
  if (!movable_ || faults() > faults_before) return;
  verdict_.Expect("the time that the host waited for idle memory", (device_.now() - start).count(), 0);
}

void ShadowRun::SetLimit(Bytes limit, Bytes others) {
  limit_ = limit;
  SharedLimit& shared = allocator_->settings().limit();
  shared.Set(limit);
  shared.GiveBack(std::exchange(others_, others));
  shared.TakeAnyway(others);
}

void ShadowRun::ExpectOkUnlessFailedTwice(const char* call, const absl::Status& status, int64_t faults_before) {
  if (!status.ok() && faults() < faults_before + 2) {
    verdict_.Fail(absl::StrFormat("%s returned %s", call, status.ToString()));
  }
}

void ShadowRun::SetFaults(const std::string& plan) {
  past_faults_ += static_cast<int64_t>(device_.faults());
  if (!device_.SetFaults(plan)) verdict_.Fail("no fault plan: " + plan);
}

void ShadowRun::Fail(const Operation& operation) {
  const char* const later = operation.kind == OperationKind::kFailAll ? "+" : "";
  SetFaults(absl::StrFormat("%s@%d%s=%s", std::string(sim::kCallKindNames[operation.call]),
                            std::max<int64_t>(operation.amount, 1), later, std::string(kErrors[operation.error])));
}

void ShadowRun::KeepPool(uint32_t pool) {
  pools_.insert(pool);
  const int64_t faults_before = faults();
  ExpectOkUnlessFailedTwice("KeepPool", allocator_->KeepPool({0, pool}), faults_before);
}

void ShadowRun::ReleasePool(uint32_t pool) {
  pools_.erase(pool);
  const absl::Status status = allocator_->ReleasePool({0, pool});
  if (!status.ok()) verdict_.Fail("ReleasePool returned " + status.ToString());
}

void ShadowRun::SetOption(const Operation& operation) {
  *FindOption(options_, kOptions[operation.option]) = operation.amount;
  allocator_->settings().SetOptions(options_);
}

// --- Others on the same device.

void ShadowRun::Cache(Pages pages) {
  while (Pages(std::ssize(cached_)) < pages) {
    const absl::StatusOr<PhysicalHandle> handle = device_.Create(kPageSize);
    if (!handle.ok()) return;
    cached_.push_back(*handle);
  }
}

bool ShadowRun::ReleaseCaches() {
  const bool some = !cached_.empty();
  for (const PhysicalHandle& handle : std::exchange(cached_, {})) {
    // A fault may hit this call as any other: tried again at the end.
    if (!device_.Release(handle).ok()) cached_.push_back(handle);
  }
  DoMeanwhile();
  return some;
}

bool ShadowRun::CollectGarbage() {
  const std::vector<uint32_t> garbage = std::exchange(garbage_, {});
  for (uint32_t name : garbage) Free(name);
  DoMeanwhile();
  return !garbage.empty();
}

void ShadowRun::DoMeanwhile() {
  if (meanwhile_left_ > 0) return;
  for (const Operation& operation : std::exchange(meanwhile_, {})) Do(operation);
}

// --- The end.

void ShadowRun::Finish() {
  if (failed()) return;
  meanwhile_left_ = 0;
  DoMeanwhile();
  if (failed()) return;
  SetFaults("");
  WakeUp(0);
  for (uint8_t stream = 1; stream <= kStreams; ++stream) SetCaptured(stream, false);
  SetLimit(kUnlimited, Bytes(0));
  if (level_ != CheckLevel::kOff) blocks_.CheckSnapshot(*allocator_, faults() > faults_at_trim_, verdict_);
  while (blocks_.count() > 0 && !failed()) Free(blocks_.names().back());
  while (!pools_.empty()) ReleasePool(*pools_.begin());
  for (const PhysicalHandle& handle : std::exchange(cached_, {})) {
    if (!device_.Release(handle).ok()) verdict_.Fail("the test's own memory cannot be given back");
  }
  if (failed()) return;
  allocator_->inspect().CheckInvariants();
  Trim(kUnlimited);
  verdict_.Expect("bytes held after all was freed and trimmed", device_.used().count(), 0);
  const Bytes all = movable_ ? device_bytes_ : kSmallLimit;
  Allocate({.kind = OperationKind::kAllocate, .block = UINT32_MAX, .amount = all.count()});
  verdict_.Expect("blocks after all memory was asked for in one piece", blocks_.count(), 1);
  const Address address = blocks_.count() == 1 ? blocks_.Find(UINT32_MAX)->address : Address();
  Free(UINT32_MAX);
  allocator_->inspect().CheckInvariants();
  CheckStatistics();
  if (!failed()) EndWorld();
  if (directory_.Find(address) != nullptr) verdict_.Fail("the directory knows an address that is gone");
}

void ShadowRun::EndWorld() {
  Trim(kUnlimited);
  verdict_.Expect("annotations that were not dropped", level_ == CheckLevel::kFull ? annotations_ : 0, 0);
  allocator_.reset();
  verdict_.Expect("bytes held by nobody", device_.used().count(), 0);
  verdict_.Expect("events held by nobody", device_.live_events(), 0);
  if (memory_.HasViews() || memory_.HasRanges()) verdict_.Fail("addresses are still reserved at the end");
}

}  // namespace frugal::shadow
