// The simulated GPU as a device for the allocation policy, in the same process and without CUDA's C functions: for
// tests and benchmarks of the policy.

#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "allocator/port/device.h"
#include "simulated_gpu/machine/machine.h"

namespace frugal::sim {

// A machine of its own with one GPU, whose clock stands at 0 and moves only when told to or when the host waits.
// Any value is a stream: it comes into being at its first use. An event that was recycled is not known any more.
// Thread-safe.
class SimulatedDevice final : public Device {
 public:
  struct Options {
    Bytes memory = GiB(16);
    // Of it, what the driver keeps for itself.
    Bytes context = Bytes(0);
    bool virtual_memory = true;
    // kMemory: addresses can be read and written, and fault where nothing is mapped or no access was set.
    Backing backing = Backing::kNone;
    // Touch() is checked; see OrderChecker.
    bool order = false;
    // What is touched must still be there when the stream's work is done; see LateWork.
    bool late = false;
  };

  SimulatedDevice() : SimulatedDevice(Options()) {}
  explicit SimulatedDevice(const Options& options);

  bool HasVirtualMemory() const override;
  absl::StatusOr<MemoryInfo> GetMemoryInfo() override;
  absl::StatusOr<Address> Reserve(Bytes size) override;
  absl::Status Unreserve(Address range, Bytes size) override;
  absl::StatusOr<PhysicalHandle> Create(Bytes size) override;
  absl::Status Release(PhysicalHandle handle) override;
  absl::Status Map(Address start, Bytes size, PhysicalHandle handle) override;
  absl::Status SetAccess(Address start, Bytes size) override;
  absl::Status Unmap(Address start, Bytes size) override;
  absl::StatusOr<Address> Malloc(Bytes size) override;
  absl::Status Free(Address segment) override;
  absl::StatusOr<::frugal::Event> Record(::frugal::Stream stream) override;
  absl::StatusOr<bool> HasPassed(::frugal::Event event) override;
  absl::Status StreamWait(::frugal::Stream stream, ::frugal::Event event) override;
  absl::Status Synchronize(::frugal::Event event) override;
  absl::Status SynchronizeAll() override;
  void Recycle(::frugal::Event event) override;

  // --- What a test asks beyond the port, as control.h for the simulated libraries: the clock, the faults, the counters
  // and what the checks found.

  Nanoseconds now() const { return machine_.clock().Now(); }
  // Time never goes back: an earlier time changes nothing.
  void AdvanceTo(Nanoseconds time) { machine_.clock().Set(time); }

  // As FRUGAL_SIM_FAULTS. False if the plan is not understood; nothing changes then.
  bool SetFaults(std::string_view plan);
  // Calls that have failed by the plan since it was set.
  uint64_t faults() const { return machine_.calls().faults(); }

  // Since the start or the last ResetCounters().
  uint64_t calls(CallKind kind) const { return machine_.calls().count(kind); }
  Nanoseconds driver_time() const { return machine_.calls().driver_time(); }
  void ResetCounters();

  Bytes used() const { return machine_.gpu(0).memory().used(); }
  Bytes peak() const { return machine_.gpu(0).memory().peak(); }

  // What the order checker has found; see there. 0, and "", without one.
  uint64_t order_accesses() const;
  uint64_t order_violations() const;
  std::string order_report() const;
  // Uses that found their memory gone or handed on when their stream's work was done; 0 where no work is late.
  uint64_t late_faults() const { return machine_.late() == nullptr ? 0 : machine_.late()->faults(); }

  Machine& machine() { return machine_; }

  // --- Of streams, events and memory.

  // All work on the stream will have passed at `time`.
  void MakeBusyUntil(::frugal::Stream stream, Nanoseconds time);

  // An operation called `name` on `stream` that reads, or writes, [start, start + size). It takes no time. Without
  // Options::order and Options::late it is nothing.
  void Touch(::frugal::Stream stream, Address start, Bytes size, bool writes, std::string_view name);

  // Whether any work is outstanding.
  bool IsBusy() const { return machine_.streams().of(0).IsBusy(); }
  // Whether `event` has not passed yet. Unlike HasPassed() this is not the program's question: nothing is counted, and
  // nothing is ordered by it.
  bool IsOutstanding(::frugal::Event event) const;
  // Whether work put into `stream` now comes after `event` anyway. REQUIRES: Options::order.
  bool IsOrderedAfter(::frugal::Stream stream, ::frugal::Event event);

  // While a stream is captured, Record and StreamWait on it are kUnavailable.
  void BeginCapture(::frugal::Stream stream);
  // False: something has invalidated the capture.
  bool EndCapture(::frugal::Stream stream);

  // `waiter` goes on when `waited` has done what it has been told, as a program orders its own streams: no fault plan
  // applies, and none goes on by it.
  void Order(::frugal::Stream waiter, ::frugal::Stream waited);

  // The program destroys the stream; its work goes on. Whoever puts something into it or waits for it from now on is
  // counted: on hardware that may be anything from an error to the end of the process. Once its handle has another
  // life, Record is kNotFound instead.
  void EndStream(::frugal::Stream stream);
  int64_t uses_of_ended_streams() const { return uses_of_ended_streams_; }

  // Events handed out and not recycled.
  int64_t live_events() const;

 private:
  Stream& StreamOf(::frugal::Stream stream);
  absl::Status CheckNotCapturing(const Stream& stream);
  // Whether the stream's handle has had another life since.
  bool IsFollowed(::frugal::Stream stream);
  // nullptr for an event that was recycled or never recorded.
  Event* EventOf(::frugal::Event event) const;

  mutable Machine machine_;

  mutable absl::Mutex mutex_;
  absl::flat_hash_map<::frugal::Stream, Stream*> streams_ ABSL_GUARDED_BY(mutex_);
  // Of streams that may end: the latest life of each handle, which is named without one.
  absl::flat_hash_map<::frugal::Stream, uint64_t> lives_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<::frugal::Stream> ended_ ABSL_GUARDED_BY(mutex_);
  std::atomic<int64_t> uses_of_ended_streams_{0};
  absl::flat_hash_map<uint64_t, Event*> events_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_event_ ABSL_GUARDED_BY(mutex_) = 1;
};

}  // namespace frugal::sim
