// A program that plays a history while the device fails, and holds the allocator to what it promises then.

#ifndef FRUGAL_TESTS_FAULTS_FAULTED_PROGRAM_H_
#define FRUGAL_TESTS_FAULTS_FAULTED_PROGRAM_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "allocator/device_allocator.h"
#include "cuda/simulated/simulated_device.h"
#include "tests/devices/forwarding_device.h"
#include "tests/histories/history.h"

namespace frugal {

// Knows what is mapped where, handle by handle.
class ViewsDevice final : public ForwardingDevice {
 public:
  explicit ViewsDevice(Device& device) : ForwardingDevice(device) {}

  // Of the handles that can be seen whole in [start, start + size).
  Bytes WholeIn(Address start, Bytes size) const;
  int64_t large_handles() const { return large_handles_; }

  absl::StatusOr<PhysicalHandle> Create(Bytes size) override;
  absl::Status Map(Address start, Bytes size, PhysicalHandle handle) override;
  absl::Status Unmap(Address start, Bytes size) override;

 private:
  std::map<Address, Bytes> views_;
  int64_t large_handles_ = 0;
};

struct Counts {
  int64_t operations = 0;
  int64_t faults = 0;
  // Requests in which a call failed, by what the program saw.
  int64_t served = 0;
  int64_t refused = 0;
  // Requests refused later that would have been served had no call failed, since what is free lies otherwise then:
  // less than the request, in whole handles, is free anywhere.
  int64_t tight = 0;
  // Uses of memory that were checked for order.
  int64_t accesses = 0;
  // Other operations in which a call failed.
  int64_t others = 0;
  // Handles of more than one page that were created.
  int64_t large_handles = 0;

  Counts& operator+=(const Counts& more);
  // One line, for whoever reads the test's output.
  void Print(const std::string& what, Bytes memory) const;
};

// Plays a history to its end and then a part that gives everything back: blocks, ranges, memory. Between the history's
// events it trims, marks use, returns idle memory and has a stream captured, at fixed places.
//
// A broken promise is noted with the place where it showed; the program goes on, if it can.
class FaultedProgram {
 public:
  struct Options {
    Bytes memory;
    bool virtual_memory = true;
    PolicyOptions policy = {};
    // See FaultPlan.
    std::string faults;
    // Calls fail one after another, so that a request may see the driver's own error. Else one call fails, and a
    // request has memory or kResourceExhausted for it, and memory when it is made again.
    bool fails_again_and_again = false;
    // From this event on no call fails; -1: the plan stays to the end.
    int64_t faults_end = -1;
  };

  FaultedProgram(const History& history, const Options& options);

  void Play();

  const Counts& counts() const { return counts_; }
  const std::vector<std::string>& problems() const { return problems_; }
  uint64_t calls(sim::CallKind kind) const { return device_.calls(kind); }
  Bytes peak() const { return peak_; }

 private:
  struct Live {
    Address address;
    Bytes size;
    Stream stream;
  };

  void Apply(const HistoryEvent& event);
  void Allocate(const HistoryEvent& event);
  absl::StatusOr<Allocation> TryAllocate(Bytes size, Stream stream);
  void Free(const HistoryEvent& event);
  // Whether enough memory is free, in whole handles of the allocator's and the device's own.
  bool CouldBeServed(Bytes size) const;
  void EndFaults();
  // What happens between the history's events.
  void Interlude();
  void GiveEverythingBack();
  void AllocateWholeDevice();
  // An operation that may fail only because calls did, and a second time when it was tried once more. Whether it
  // succeeded.
  template <typename Operation>
  bool MayFailAgainAndAgain(const char* name, Operation operation);
  template <typename Operation>
  void MustSucceed(const char* name, Operation operation);

  void CheckBooks();
  // Of a short history after each operation from the first fault on.
  bool IsTimeToCheck();
  void ExpectNoOverlap(Address start, Bytes size);
  void Problem(std::string what);

  const History& history_;
  const Options options_;
  sim::SimulatedDevice device_;
  ViewsDevice views_;
  AddressDirectory directory_;
  std::unique_ptr<DeviceAllocator> allocator_;

  std::vector<std::optional<Live>> blocks_;  // by number of allocation
  std::map<Address, Bytes> live_;
  Bytes live_bytes_;
  int64_t now_ = 0;
  Bytes peak_;
  int64_t faults_seen_ = 0;
  int64_t latest_fault_ = 0;  // the event in which it came
  Counts counts_;
  std::vector<std::string> problems_;
};

// What to play the history with: no fault, and little more memory than it fits into, so that all of it is wanted.
FaultedProgram::Options FittingOptions(const History& history, bool virtual_memory, const PolicyOptions& policy = {});

// With which handles of several pages are made and moved even where memory is tight.
PolicyOptions LargeHandles();

// The kinds of call that the policy makes.
const std::vector<sim::CallKind>& FailingKinds();
std::string NameOf(sim::CallKind kind);
// The ways in which calls fail: out of memory, otherwise, as a capture forbids it (which means "later" where the policy
// asks for it); and after the next call, for the first two.
const std::vector<std::string>& FailingErrors();

}  // namespace frugal

#endif  // FRUGAL_TESTS_FAULTS_FAULTED_PROGRAM_H_
