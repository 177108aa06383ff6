// How long the driver has taken for the calls of one GPU, by kind.

#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace frugal {

// X(name). Those of the port's calls that ask the driver for something (allocator/port/device.h), by the names that
// DriverCosts has for them. `sync` is how long the host waited for the GPU's work.
#define FRUGAL_DRIVER_CALLS(X) \
  X(memory_info)               \
  X(reserve)                   \
  X(unreserve)                 \
  X(create)                    \
  X(release)                   \
  X(map)                       \
  X(set_access)                \
  X(unmap)                     \
  X(malloc)                    \
  X(free)                      \
  X(event_create)              \
  X(event_record)              \
  X(event_query)               \
  X(stream_wait)               \
  X(sync)

enum class DriverCall {
#define FRUGAL_NAME_CALL(name) name,
  FRUGAL_DRIVER_CALLS(FRUGAL_NAME_CALL)
#undef FRUGAL_NAME_CALL
};

// In the order of DriverCall.
inline constexpr std::array kDriverCallNames = {
#define FRUGAL_SPELL_CALL(name) std::string_view(#name),
    FRUGAL_DRIVER_CALLS(FRUGAL_SPELL_CALL)
#undef FRUGAL_SPELL_CALL
};

// Of one kind; times in nanoseconds of the wall's. A call that failed counts, too.
struct DriverTime {
  int64_t calls = 0;
  int64_t total = 0;
  int64_t worst = 0;
};

// No lock: what is noted by several threads at a time is read as if some of it came later.
// Thread-safety: any thread.
class DriverTimes {
 public:
  // Notes the time from its beginning to its end. Reading the clock twice takes 40 to 80 ns, of calls that take 500 at
  // least; no call is made where a block is at hand.
  class Stopwatch {
   public:
    Stopwatch(DriverTimes& times, DriverCall call) : times_(times), call_(call), start_(Clock::now()) {}
    ~Stopwatch() {
      times_.Note(call_, std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_).count());
    }
    Stopwatch(const Stopwatch&) = delete;
    Stopwatch& operator=(const Stopwatch&) = delete;

   private:
    using Clock = std::chrono::steady_clock;

    DriverTimes& times_;
    const DriverCall call_;
    const Clock::time_point start_;
  };

  void Note(DriverCall call, int64_t nanoseconds);
  DriverTime Of(DriverCall call) const;
  void Forget();

 private:
  struct Sums {
    std::atomic<int64_t> calls{0};
    std::atomic<int64_t> total{0};
    std::atomic<int64_t> worst{0};
  };

  std::array<Sums, kDriverCallNames.size()> sums_;
};

}  // namespace frugal
