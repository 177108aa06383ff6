// Plays one history through the policy on the simulated GPU, without torch, and prints what it took as one line of
// JSON. bench/comparison/policy.py starts it; bench/comparison/figures.py says what the fields mean.

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "allocator/blocks/address_directory.h"
#include "allocator/device_allocator.h"
#include "allocator/port/policy_options.h"
#include "bindings/replay/history.h"
#include "simulated_gpu/machine/simulated_device.h"

namespace frugal::bench {
namespace {

using replay::Event;
using replay::Operation;
using sim::CallKind;
using sim::Nanoseconds;

constexpr std::string_view kUsage =
    "usage: policy_player EVENTS CAPACITY STREAM_LAG STEADY_FROM [OPTION=VALUE ...]\n"
    "       policy_player --options\n"
    "\n"
    "EVENTS       a file of bindings/replay/history.h's events\n"
    "CAPACITY     bytes of the GPU\n"
    "STREAM_LAG   how many events the streams are behind the host\n"
    "STEADY_FROM  the event from which on costs count as those of the steady state, counted on through a second play\n"
    "OPTION       of allocator/port/policy_options.h; --options prints all with their values\n";
constexpr int kFailed = 1;
constexpr int kBadInput = 2;
// A request may take so much of the driver's time for each of its bytes: 40 ms/GiB.
constexpr double kNanosecondsPerByte = 40e6 / (1 << 30);

struct Task {
  std::vector<Event> events;
  Bytes capacity;
  int64_t lag = 0;
  int64_t steady_from = 0;
  PolicyOptions options;
};

struct Costs {
  int64_t driver_ns = 0;
  // Calls that change what is mapped where, or take memory from the device or give it back.
  int64_t calls = 0;
  // Records and queries of events.
  int64_t event_calls = 0;
  int64_t allocations = 0;
};

// As bindings/replay/replayer.h plays it: event n of a play happens n nanoseconds after the play began.
class Player {
 public:
  explicit Player(const Task& task)
      : task_(task), device_({.memory = task.capacity}), allocator_(device_, directory_, nullptr) {
    allocator_.settings().SetOptions(task.options);
  }

  // kResourceExhausted: the device is full, at event position().
  absl::Status Play();
  // Frees what is still allocated, and lets the streams finish.
  absl::Status FreeAll();

  int64_t position() const { return position_; }
  bool StartsSteady() const { return played_ + position_ == task_.steady_from; }
  const sim::SimulatedDevice& device() const { return device_; }
  // Of the requests: the most of the driver's time that one took beyond what its size allows.
  int64_t worst_excess_ns() const { return worst_excess_ns_; }
  // The driver's time up to the request with which the most memory was held for the first time.
  int64_t ns_to_peak() const { return ns_to_peak_; }
  Costs costs() const;
  // Up to the end of the latest play; nothing before STEADY_FROM.
  std::optional<Costs> SteadyCosts() const;

 private:
  absl::Status Allocate(const Event& event);
  absl::Status Free(const Event& event);
  void Work(uint32_t stream);
  void MakeBusyUntil(uint32_t stream, int64_t event) { device_.MakeBusyUntil({.id = stream}, At(event)); }
  Nanoseconds At(int64_t event) const { return Nanoseconds(start_ns_ + event); }

  const Task& task_;
  sim::SimulatedDevice device_;
  AddressDirectory directory_;
  DeviceAllocator allocator_;
  struct Made {
    Address address;
    const Event* event = nullptr;
  };
  // By allocation.
  std::vector<Made> live_ = std::vector<Made>(task_.events.size());
  int64_t position_ = 0;
  // Events of the plays before this one.
  int64_t played_ = 0;
  int64_t start_ns_ = 0;
  int64_t allocations_ = 0;
  int64_t worst_excess_ns_ = 0;
  Bytes peak_ = Bytes(0);
  int64_t ns_to_peak_ = 0;
  std::optional<Costs> steady_begin_;
};

absl::Status Player::Play() {
  for (position_ = 0; position_ < static_cast<int64_t>(task_.events.size()); ++position_) {
    const Event& event = task_.events[static_cast<size_t>(position_)];
    if (StartsSteady()) steady_begin_ = costs();
    device_.AdvanceTo(At(position_));
    absl::Status done = event.operation == Operation::kAllocate ? Allocate(event) : Free(event);
    if (!done.ok()) return done;
  }
  played_ += position_;
  return absl::OkStatus();
}

absl::Status Player::Allocate(const Event& event) {
  const Bytes size(static_cast<int64_t>(event.size));
  const int64_t before = device_.driver_time().count();
  const absl::StatusOr<Allocation> made = allocator_.Allocate(size, {.id = event.stream}, nullptr, kGrain);
  if (!made.ok()) return made.status();
  const int64_t took = device_.driver_time().count() - before;
  const auto allowed = static_cast<int64_t>(kNanosecondsPerByte * static_cast<double>(event.size));
  worst_excess_ns_ = std::max(worst_excess_ns_, took - allowed);
  live_[event.allocation] = {made->address, &event};
  ++allocations_;
  if (device_.peak() > peak_) {
    peak_ = device_.peak();
    ns_to_peak_ = device_.driver_time().count();
  }
  Work(event.stream);
  return absl::OkStatus();
}

absl::Status Player::Free(const Event& event) {
  Made& made = live_[event.allocation];
  Work(made.event->stream);
  if (event.ready > 0) {
    MakeBusyUntil(event.late_stream, static_cast<int64_t>(event.ready));
    absl::Status recorded = allocator_.RecordStream(made.address, {.id = event.late_stream});
    if (!recorded.ok()) return recorded;
  }
  made.event = nullptr;
  return allocator_.Free(made.address).status();
}

void Player::Work(uint32_t stream) {
  if (task_.lag > 0) MakeBusyUntil(stream, position_ + task_.lag);
}

absl::Status Player::FreeAll() {
  for (Made& made : live_) {
    if (made.event == nullptr) continue;
    made.event = nullptr;
    const absl::StatusOr<Bytes> freed = allocator_.Free(made.address);
    if (!freed.ok()) return freed.status();
  }
  start_ns_ += static_cast<int64_t>(task_.events.size()) + task_.lag + 1;
  device_.AdvanceTo(At(0));
  return absl::OkStatus();
}

Costs Player::costs() const {
  Costs costs{.driver_ns = device_.driver_time().count(), .allocations = allocations_};
  for (const CallKind kind : {CallKind::kCreate, CallKind::kMap, CallKind::kSetAccess, CallKind::kUnmap,
                              CallKind::kRelease, CallKind::kMalloc, CallKind::kFree}) {
    costs.calls += static_cast<int64_t>(device_.calls(kind));
  }
  costs.event_calls =
      static_cast<int64_t>(device_.calls(CallKind::kEventRecord) + device_.calls(CallKind::kEventQuery));
  return costs;
}

std::optional<Costs> Player::SteadyCosts() const {
  if (!steady_begin_) return std::nullopt;
  const Costs now = costs();
  return Costs{now.driver_ns - steady_begin_->driver_ns, now.calls - steady_begin_->calls,
               now.event_calls - steady_begin_->event_calls, now.allocations - steady_begin_->allocations};
}

std::optional<int64_t> ParseNumber(std::string_view text) {
  int64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

absl::StatusOr<std::vector<Event>> ReadEvents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat(path, " cannot be read"));
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<Event> events(bytes.size() / sizeof(Event));
  std::copy_n(bytes.data(), events.size() * sizeof(Event), reinterpret_cast<char*>(events.data()));
  // No allocation is made twice, so a number as large as that of events names none.
  const auto most = static_cast<uint32_t>(events.size());
  constexpr uint32_t kMostStreams = 1024;
  if (events.empty() || bytes.size() % sizeof(Event) != 0 || !replay::Validate(events, 0, most, kMostStreams)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is no file of events"));
  }
  return events;
}

absl::Status SetOption(PolicyOptions& options, std::string_view assignment) {
  const size_t equals = std::min(assignment.find('='), assignment.size());
  const std::string name(assignment.substr(0, equals));
  int64_t* const option = FindOption(options, name);
  if (option == nullptr) return absl::InvalidArgumentError(absl::StrCat("there is no option ", name));
  const std::optional<int64_t> value = ParseNumber(assignment.substr(std::min(equals + 1, assignment.size())));
  if (!value) return absl::InvalidArgumentError(absl::StrCat(name, " is given no number"));
  *option = *value;
  return absl::OkStatus();
}

absl::StatusOr<Task> Parse(std::span<const char* const> arguments) {
  Task task;
  int64_t numbers[3];
  for (size_t i = 0; i < std::size(numbers); ++i) {
    const std::optional<int64_t> number = ParseNumber(arguments[i + 1]);
    if (!number) return absl::InvalidArgumentError(absl::StrCat(arguments[i + 1], " is no number"));
    numbers[i] = *number;
  }
  task.capacity = Bytes(numbers[0]);
  task.lag = numbers[1];
  task.steady_from = numbers[2];
  for (const char* const assignment : arguments.subspan(4)) {
    const absl::Status set = SetOption(task.options, assignment);
    if (!set.ok()) return set;
  }
  absl::StatusOr<std::vector<Event>> events = ReadEvents(arguments[0]);
  if (!events.ok()) return events.status();
  task.events = *std::move(events);
  return task;
}

std::string Json(const std::optional<Costs>& steady) {
  if (!steady) return "null";
  return absl::StrFormat(R"({"driver_ns": %d, "calls": %d, "event_calls": %d, "allocations": %d})", steady->driver_ns,
                         steady->calls, steady->event_calls, steady->allocations);
}

int PrintFailure(const absl::Status& failure, int status) {
  absl::FPrintF(stderr, "policy_player: %s\n", failure.message());
  return status;
}

int PrintOptions() {
  std::string fields;
#define FRUGAL_APPEND_OPTION(name, figure, what) \
  absl::StrAppend(&fields, fields.empty() ? "" : ", ", "\"" #name "\": ", figure);
  FRUGAL_POLICY_OPTIONS(FRUGAL_APPEND_OPTION)
#undef FRUGAL_APPEND_OPTION
  absl::PrintF("{%s}\n", fields);
  return 0;
}

// Status 0 also where memory ran out.
int PlayAndPrint(const Task& task) {
  Player player(task);
  absl::Status done = player.Play();
  const auto calls = [&](CallKind kind) { return player.device().calls(kind); };
  const std::string failed_at = done.ok() ? "null" : absl::StrCat(player.position());
  const std::string first = absl::StrFormat(
      R"("failed_at": %s, "held_bytes": %d, "driver_ns": %d, "driver_ns_to_peak": %d, "worst_excess_ns": %d, "creates": %d, )"
      R"("host_waits": %d, "stream_waits": %d)",
      failed_at, player.device().peak().count(), player.costs().driver_ns, player.ns_to_peak(),
      player.worst_excess_ns(), calls(CallKind::kCreate), calls(CallKind::kSync) + calls(CallKind::kFree),
      calls(CallKind::kStreamWait));
  if (done.ok() && task.steady_from >= static_cast<int64_t>(task.events.size())) {
    done = player.FreeAll();
    if (done.ok()) done = player.Play();
  }
  if (!done.ok() && !absl::IsResourceExhausted(done)) {
    return PrintFailure(absl::InternalError(absl::StrCat("event ", player.position(), ": ", done.ToString())), kFailed);
  }
  absl::PrintF("{%s, \"steady\": %s}\n", first, done.ok() ? Json(player.SteadyCosts()) : "null");
  return 0;
}

int Main(std::span<const char* const> arguments) {
  if (arguments.size() == 1 && std::string_view(arguments[0]) == "--options") return PrintOptions();
  if (arguments.size() < 4) {
    std::fputs(kUsage.data(), stderr);
    return kBadInput;
  }
  const absl::StatusOr<Task> task = Parse(arguments);
  return task.ok() ? PlayAndPrint(*task) : PrintFailure(task.status(), kBadInput);
}

}  // namespace
}  // namespace frugal::bench

int main(int argc, char** argv) { return frugal::bench::Main({argv + 1, static_cast<size_t>(argc - 1)}); }
