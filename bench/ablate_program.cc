// Plays one history through the policy on a simulated GPU, without torch, and prints what it took as one line of JSON.
//
//   ablate_program EVENTS CAPACITY_BYTES STREAM_LAG PASSES [name=value ...]
//
// EVENTS: a history as bindings/replay/history.h lays it out; name=value: of allocator/policy_options.h.

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "allocator/address_directory.h"
#include "allocator/device_allocator.h"
#include "bindings/replay/history.h"
#include "cuda/simulated/simulated_device.h"

namespace {

using frugal::Address;
using frugal::Bytes;
using frugal::Stream;
using frugal::replay::Event;
using frugal::replay::Operation;

struct Player {
  frugal::sim::SimulatedDevice& device;
  frugal::DeviceAllocator& allocator;
  const std::vector<Event>& events;
  int64_t lag;
  std::vector<Address> addresses;
  std::vector<const Event*> made;
  int64_t start = 0;
  int64_t live = 0, most_live = 0, most_held = 0;
  int64_t worst_over = 0;  // ns above 40 ms/GiB
  int64_t time_to_peak = 0;

  Stream StreamOf(uint32_t number) const { return Stream{.id = number}; }
  void Work(uint32_t stream, int64_t position) {
    if (lag > 0) device.MakeBusyUntil(StreamOf(stream), frugal::sim::Nanoseconds(start + position + lag));
  }
  bool Play(int64_t* failed_at) {
    for (size_t i = 0; i < events.size(); ++i) {
      const Event& event = events[i];
      const auto position = static_cast<int64_t>(i);
      device.AdvanceTo(frugal::sim::Nanoseconds(start + position));
      if (event.operation == Operation::kAllocate) {
        const int64_t before = device.driver_time().count();
        auto allocation =
            allocator.Allocate(Bytes(static_cast<int64_t>(event.size)), StreamOf(event.stream), nullptr, Bytes(512));
        if (!allocation.ok()) {
          *failed_at = position;
          if (std::getenv("DUMP")) {
            for (const auto& segment : allocator.Snapshot()) {
              std::fprintf(stderr, "seg %s %lld MiB stream %llu:", segment.small ? "small" : "large",
                           (long long)segment.size.count() >> 20, (unsigned long long)segment.stream.id);
              for (const auto& block : segment.blocks)
                if (block.state == frugal::BlockView::State::kFree && block.size.count() >= (2 << 20))
                  std::fprintf(stderr, " %lld+%.1f", (long long)(block.address - segment.address).count() >> 20,
                               (double)block.size.count() / (1 << 20));
              std::fprintf(stderr, "\n");
            }
            std::fprintf(stderr, "wanted %.1f MiB live %.1f held %.1f\n", (double)event.size / (1 << 20),
                         (double)live / (1 << 20), (double)allocator.Held().count() / (1 << 20));
          }
          return false;
        }
        const int64_t took = device.driver_time().count() - before;
        worst_over =
            std::max(worst_over, took - static_cast<int64_t>(static_cast<double>(event.size) / (1 << 30) * 40e6));
        addresses[event.allocation] = allocation->address;
        made[event.allocation] = &event;
        live += static_cast<int64_t>(event.size);
        most_live = std::max(most_live, live);
        const int64_t held = allocator.Held().count();
        if (held > most_held) {
          most_held = held;
          time_to_peak = device.driver_time().count();
        }
        Work(event.stream, position);
        continue;
      }
      Work(made[event.allocation]->stream, position);
      if (event.ready > 0) {
        device.MakeBusyUntil(StreamOf(event.late_stream),
                             frugal::sim::Nanoseconds(start + static_cast<int64_t>(event.ready)));
        (void)allocator.RecordStream(addresses[event.allocation], StreamOf(event.late_stream));
      }
      (void)allocator.Free(addresses[event.allocation]);
      live -= static_cast<int64_t>(made[event.allocation]->size);
      made[event.allocation] = nullptr;
    }
    return true;
  }
  void FreeAll() {
    for (size_t i = 0; i < made.size(); ++i) {
      if (made[i] == nullptr) continue;
      (void)allocator.Free(addresses[i]);
      live -= static_cast<int64_t>(made[i]->size);
      made[i] = nullptr;
    }
    start += static_cast<int64_t>(events.size()) + lag + 1;
    device.AdvanceTo(frugal::sim::Nanoseconds(start));
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  std::ifstream file(argv[1], std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<Event> events(bytes.size() / sizeof(Event));
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(events.data()));
  uint32_t allocations = 0;
  for (const Event& event : events) allocations = std::max(allocations, event.allocation + 1);
  const int64_t capacity = std::atoll(argv[2]);
  const int64_t lag = std::atoll(argv[3]);
  const int passes = std::atoi(argv[4]);
  frugal::sim::SimulatedDevice device({.memory = Bytes(capacity)});
  frugal::AddressDirectory directory;
  frugal::DeviceAllocator allocator(device, directory, nullptr);
  frugal::PolicyOptions options;
  for (int i = 5; i < argc; ++i) {
    const std::string assignment = argv[i];
    const size_t equals = assignment.find('=');
    int64_t* const option = frugal::FindOption(options, assignment.substr(0, equals));
    if (option == nullptr || equals == std::string::npos) {
      std::fprintf(stderr, "no option %s\n", argv[i]);
      return 2;
    }
    *option = std::atoll(argv[i] + equals + 1);
  }
  allocator.SetOptions(options);
  Player player{
      device, allocator, events, lag, std::vector<Address>(allocations), std::vector<const Event*>(allocations)};
  int64_t failed_at = -1;
  bool completed = true;
  int64_t first = 0;
  int64_t warm = 0;
  for (int pass = 0; pass < passes && completed; ++pass) {
    const int64_t before = device.driver_time().count();
    completed = player.Play(&failed_at);
    (pass == 0 ? first : warm) = device.driver_time().count() - before;
    if (completed && pass + 1 < passes) player.FreeAll();
  }
  const auto calls = [&](frugal::sim::CallKind kind) { return device.calls(kind); };
  const auto statistics = allocator.GetStatistics();
  std::printf(
      "{\"completed\": %s, \"failed_at\": %" PRId64 ", \"driver_ms\": %.3f, \"warm_ms\": %.3f, \"live\": %" PRId64
      ", \"held\": %" PRId64 ", \"create\": %" PRIu64 ", \"map\": %" PRIu64 ", \"set_access\": %" PRIu64
      ", \"unmap\": %" PRIu64 ", \"release\": %" PRIu64 ", \"stitches\": %" PRId64 ", \"waits\": %" PRId64
      ", \"worst_over_ms\": %.3f, \"peak_ms\": %.3f, \"host_syncs\": %" PRIu64 "}\n",
      completed ? "true" : "false", failed_at, static_cast<double>(first) / 1e6, static_cast<double>(warm) / 1e6,
      player.most_live, player.most_held, calls(frugal::sim::CallKind::kCreate), calls(frugal::sim::CallKind::kMap),
      calls(frugal::sim::CallKind::kSetAccess), calls(frugal::sim::CallKind::kUnmap),
      calls(frugal::sim::CallKind::kRelease), statistics.num_stitches, statistics.num_stream_waits,
      static_cast<double>(player.worst_over) / 1e6, static_cast<double>(player.time_to_peak) / 1e6,
      calls(frugal::sim::CallKind::kSync));
  return 0;
}
