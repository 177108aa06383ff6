#include "simulated_gpu/machine/simulated_device.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace frugal::sim {
namespace {

constexpr int kGpu = 0;

absl::Status ToStatus(Error error, const char* call) {
  const std::string name(ErrorName(error));
  switch (error) {
    case Error::kSuccess:
      return absl::OkStatus();
    case Error::kOutOfMemory:
      return absl::ResourceExhaustedError(absl::StrCat(call, ": ", name));
    case Error::kCaptureUnsupported:
    case Error::kCaptureInvalidated:
    case Error::kCaptureIsolation:
    case Error::kCaptureImplicit:
    case Error::kCapturedEvent:
      return absl::UnavailableError(absl::StrCat(call, ": ", name));
    default:
      return absl::InternalError(absl::StrCat(call, ": ", name));
  }
}

// Of a mapping. What has run out are the driver's places, unless the device has no page left for its tables, either.
absl::Status ToMappingStatus(Error error, const char* call, Bytes free) {
  if (error != Error::kOutOfMemory || free < kPageSize) return ToStatus(error, call);
  return absl::AbortedError(absl::StrCat(call, ": ", std::string(ErrorName(error))));
}

::frugal::Stream WithoutLife(::frugal::Stream stream) {
  stream.life = 0;
  return stream;
}

Configuration ToConfiguration(const SimulatedDevice::Options& options) {
  Configuration configuration;
  configuration.memory = options.memory;
  configuration.context = options.context;
  configuration.backing = options.backing;
  configuration.virtual_memory = options.virtual_memory;
  configuration.order = options.order;
  configuration.late = options.late;
  return configuration;
}

}  // namespace

SimulatedDevice::SimulatedDevice(const Options& options) : machine_(ToConfiguration(options)) {
  machine_.clock().Set(Nanoseconds(0));
  // They are counted; the order checker's are its own.
  if (options.late) machine_.late()->OnFault([](const std::string&) {});
}

bool SimulatedDevice::HasVirtualMemory() const { return machine_.virtual_memory().supported(); }

absl::StatusOr<MemoryInfo> SimulatedDevice::GetMemoryInfo() {
  MemoryInfo info;
  const Error error = machine_.GetMemoryInfo(kGpu, &info.free, &info.total);
  if (error != Error::kSuccess) return ToStatus(error, "memory_info");
  return info;
}

absl::StatusOr<Address> SimulatedDevice::Reserve(Bytes size) {
  Address start;
  const Error error = machine_.virtual_memory().Reserve(size, kPageSize, Address(), &start);
  // Addresses have run out: no memory given back helps, and there may be plenty.
  if (error == Error::kOutOfMemory) return absl::InternalError(ToStatus(error, "reserve").message());
  if (error != Error::kSuccess) return ToStatus(error, "reserve");
  return start;
}

absl::Status SimulatedDevice::Unreserve(Address range, Bytes size) {
  return ToStatus(machine_.virtual_memory().Unreserve(range, size), "unreserve");
}

absl::StatusOr<PhysicalHandle> SimulatedDevice::Create(Bytes size) {
  PhysicalHandle handle;
  const Error error = machine_.virtual_memory().Create(kGpu, size, &handle.id);
  if (error != Error::kSuccess) return ToStatus(error, "create");
  return handle;
}

absl::Status SimulatedDevice::Release(PhysicalHandle handle) {
  return ToStatus(machine_.virtual_memory().Release(handle.id), "release");
}

absl::Status SimulatedDevice::Map(Address start, Bytes size, PhysicalHandle handle) {
  return ToMappingStatus(machine_.virtual_memory().Map(start, size, handle.id), "map",
                         machine_.gpu(kGpu).memory().free());
}

absl::Status SimulatedDevice::SetAccess(Address start, Bytes size) {
  const Error error = machine_.virtual_memory().SetAccess(start, size, {{kGpu, VirtualMemory::Access::kReadWrite}});
  return ToMappingStatus(error, "set_access", machine_.gpu(kGpu).memory().free());
}

absl::Status SimulatedDevice::Unmap(Address start, Bytes size) {
  return ToStatus(machine_.virtual_memory().Unmap(start, size), "unmap");
}

absl::StatusOr<Address> SimulatedDevice::Malloc(Bytes size) {
  Address start;
  const Error error = machine_.segments().Malloc(kGpu, size, Segments::Kind::kDevice, &start);
  if (error != Error::kSuccess) return ToStatus(error, "malloc");
  return start;
}

absl::Status SimulatedDevice::Free(Address segment) { return ToStatus(machine_.segments().Free(segment), "free"); }

absl::StatusOr<::frugal::Event> SimulatedDevice::Record(::frugal::Stream stream) {
  if (IsFollowed(stream)) return absl::NotFoundError("the stream has been destroyed");
  Streams& streams = machine_.streams();
  Stream& recorded = StreamOf(stream);
  if (absl::Status status = CheckNotCapturing(recorded); !status.ok()) return status;
  Event* event = nullptr;
  if (const Error error = streams.events().Create(&event); error != Error::kSuccess)
    return ToStatus(error, "event_create");
  if (const Error error = streams.events().Record(event, recorded); error != Error::kSuccess) {
    (void)streams.events().Destroy(event);
    return ToStatus(error, "event_record");
  }
  absl::MutexLock lock(&mutex_);
  const uint64_t id = next_event_++;
  events_.emplace(id, event);
  return ::frugal::Event{id};
}

absl::StatusOr<bool> SimulatedDevice::HasPassed(::frugal::Event event) {
  const Error error = machine_.streams().events().Query(EventOf(event));
  if (error == Error::kNotReady) return false;
  if (error != Error::kSuccess) return ToStatus(error, "event_query");
  return true;
}

absl::Status SimulatedDevice::StreamWait(::frugal::Stream stream, ::frugal::Event event) {
  Stream& waiting = StreamOf(stream);
  if (absl::Status status = CheckNotCapturing(waiting); !status.ok()) return status;
  return ToStatus(machine_.streams().events().StreamWait(waiting, EventOf(event)), "stream_wait");
}

absl::Status SimulatedDevice::Synchronize(::frugal::Event event) {
  return ToStatus(machine_.streams().events().Synchronize(EventOf(event)), "event_synchronize");
}

absl::Status SimulatedDevice::SynchronizeAll() {
  return ToStatus(machine_.streams().of(kGpu).Synchronize(), "synchronize");
}

void SimulatedDevice::Recycle(::frugal::Event event) {
  Event* gone = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    const auto it = events_.find(event.id);
    if (it == events_.end()) return;
    gone = it->second;
    events_.erase(it);
  }
  (void)machine_.streams().events().Destroy(gone);  // It was here, so it is there.
}

bool SimulatedDevice::SetFaults(std::string_view plan) {
  std::optional<FaultPlan> parsed = FaultPlan::Parse(plan);
  if (!parsed) return false;
  machine_.calls().SetFaults(*std::move(parsed));
  return true;
}

void SimulatedDevice::ResetCounters() {
  machine_.calls().ResetCounters();
  machine_.gpu(kGpu).memory().ResetPeak();
}

uint64_t SimulatedDevice::order_accesses() const {
  return machine_.order() == nullptr ? 0 : machine_.order()->accesses();
}

uint64_t SimulatedDevice::order_violations() const {
  return machine_.order() == nullptr ? 0 : machine_.order()->violations();
}

std::string SimulatedDevice::order_report() const {
  return machine_.order() == nullptr ? "" : machine_.order()->Report();
}

void SimulatedDevice::MakeBusyUntil(::frugal::Stream stream, Nanoseconds time) {
  machine_.streams().SetBusyUntil(StreamOf(stream), time);
}

void SimulatedDevice::Touch(::frugal::Stream stream, Address start, Bytes size, bool writes, std::string_view name) {
  if (!machine_.configuration().wants_uses()) return;
  Work work;
  work.kind = WorkKind::kKernel;
  work.uses = {{start, size, writes, /*must_be_mapped=*/true}};
  work.name = name;
  // Only a stream whose capture was invalidated refuses work; nothing runs then, so nothing is touched.
  (void)machine_.streams().Enqueue(StreamOf(stream), std::move(work));
}

bool SimulatedDevice::IsOutstanding(::frugal::Event event) const {
  Nanoseconds passes_at{0};
  const Error error = machine_.streams().events().PassesAt(EventOf(event), &passes_at);
  return error == Error::kSuccess && passes_at > now();
}

bool SimulatedDevice::IsOrderedAfter(::frugal::Stream stream, ::frugal::Event event) {
  return machine_.streams().events().IsOrderedAfter(StreamOf(stream), EventOf(event));
}

void SimulatedDevice::BeginCapture(::frugal::Stream stream) {
  // Relaxed, so that the capture forbids the policy nothing but to use the stream itself.
  (void)machine_.streams().captures().Begin(StreamOf(stream), CaptureMode::kRelaxed, std::make_shared<Graph>(), {});
}

bool SimulatedDevice::EndCapture(::frugal::Stream stream) {
  std::shared_ptr<Graph> graph;
  return machine_.streams().captures().End(StreamOf(stream), &graph) == Error::kSuccess;
}

void SimulatedDevice::Order(::frugal::Stream waiter, ::frugal::Stream waited) {
  FaultPlan plan = machine_.calls().TakeFaults();
  if (const absl::StatusOr<::frugal::Event> event = Record(waited); event.ok()) {
    StreamWait(waiter, *event).IgnoreError();  // Neither stream is one that is captured.
    Recycle(*event);
  }
  machine_.calls().SetFaults(std::move(plan));
}

void SimulatedDevice::EndStream(::frugal::Stream stream) {
  absl::MutexLock lock(&mutex_);
  ended_.insert(stream);
}

int64_t SimulatedDevice::live_events() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int64_t>(events_.size());
}

absl::Status SimulatedDevice::CheckNotCapturing(const Stream& stream) {
  Captures::Info info;
  const Error error = machine_.streams().captures().Query(stream, &info);
  if (error != Error::kSuccess) return ToStatus(error, "capture_query");
  if (info.state == Capture::State::kEnded) return absl::OkStatus();
  return absl::UnavailableError("the stream is being captured");
}

bool SimulatedDevice::IsFollowed(::frugal::Stream stream) {
  absl::MutexLock lock(&mutex_);
  return streams_.contains(stream) && !stream.lasts() && lives_.at(WithoutLife(stream)) != stream.life;
}

Stream& SimulatedDevice::StreamOf(::frugal::Stream stream) {
  absl::MutexLock lock(&mutex_);
  if (ended_.contains(stream)) ++uses_of_ended_streams_;
  Stream*& known = streams_[stream];
  if (known == nullptr) {
    if (!stream.lasts()) lives_[WithoutLife(stream)] = stream.life;
    known = machine_.streams().Create(kGpu, Stream::Kind::kNonBlocking, /*priority=*/0);
    machine_.streams().NameForOrder(*known, "stream " + std::to_string(stream.id));
  }
  return *known;
}

Event* SimulatedDevice::EventOf(::frugal::Event event) const {
  absl::MutexLock lock(&mutex_);
  const auto it = events_.find(event.id);
  return it == events_.end() ? nullptr : it->second;
}

}  // namespace frugal::sim
