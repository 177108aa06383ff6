// A program that uses its memory as one on a GPU does, every access of which is checked: it writes what it is given,
// and goes on reading until it gives it back.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "allocator/device_allocator.h"
#include "simulated_gpu/machine/simulated_device.h"
#include "tests/order/logged_device.h"
#include "tests/order/lying_device.h"
#include "tests/order/work_log.h"

namespace frugal {

// The program itself makes no mistake: a stream that uses another's memory waits for it first. So every violation is
// the allocator's, or its device's.
class OrderedProgram {
 public:
  struct Options {
    Bytes memory = MiB(64);
    bool virtual_memory = true;
    PolicyOptions policy = {};
  };

  explicit OrderedProgram(const Options& options);
  OrderedProgram() : OrderedProgram(Options()) {}
  // Waits for all work first, as a program does before it ends. What has order must have found its memory; else the
  // test fails.
  ~OrderedProgram();
  OrderedProgram(const OrderedProgram&) = delete;
  OrderedProgram& operator=(const OrderedProgram&) = delete;

  // nullopt: out of memory. Any other failure ends the test.
  std::optional<Address> TryAllocate(Bytes size, Stream stream);
  // REQUIRES: there is memory.
  Address Allocate(Bytes size, Stream stream);
  void Free(Address address);
  // Work of another stream reads the memory, and is done at `until`. REQUIRES: neither stream is captured.
  void UseOn(Address address, Stream stream, int64_t until);
  // The chosen blocks fall asleep, `other` takes memory meanwhile, and they wake and are written anew. Nothing while a
  // stream is captured.
  void SleepAndWake(Sleep::Choice chosen, Stream other);
  // The stream's work so far is done at `until`, not before.
  void MakeBusyUntil(Stream stream, int64_t until) { device_.MakeBusyUntil(stream, sim::Nanoseconds(until)); }
  void AdvanceTo(int64_t time) { device_.AdvanceTo(sim::Nanoseconds(time)); }
  int64_t now() const { return device_.now().count(); }
  // What is put into a captured stream does not run.
  void BeginCapture(Stream stream);
  void EndCapture(Stream stream);

  // Every block handed out and not given back, by address.
  const std::map<Address, Bytes>& live() const { return live_; }
  DeviceAllocator& allocator() { return *allocator_; }
  LyingDevice& lying() { return lying_; }

  const LoggedDevice::LargeHandles& large() const { return logged_.large(); }
  // Whether something was used, or unmapped, without order, by the log. The order checker, which knows nothing of the
  // log, must have reported the first such moment, and nothing but such moments; else the test fails.
  bool HasViolations() const;
  // What the checker says.
  uint64_t accesses() const { return device_.order_accesses(); }
  uint64_t violations() const { return device_.order_violations(); }
  std::string report() const { return device_.order_report(); }
  // Waits for all work: how often what ran found its memory gone or handed on.
  uint64_t FaultsOfLateWork();

 private:
  void Touch(Stream stream, Address start, Bytes size, bool writes, std::string_view name) {
    if (!captured_.contains(stream)) logged_.Touch(stream, start, size, writes, name);
  }

  sim::SimulatedDevice device_;
  WorkLog log_;
  LoggedDevice logged_;
  LyingDevice lying_;
  AddressDirectory directory_;
  std::unique_ptr<DeviceAllocator> allocator_;
  std::map<Address, Bytes> live_;
  std::set<Stream> captured_;
};

// Takes all the memory that there is for `stream`, in pieces of 2 MiB, and gives it back.
void TakeAll(OrderedProgram& program, Stream stream);
// Takes every free block for the stream that it belongs to, and gives them back.
void TakeWhatIsFree(OrderedProgram& program);

}  // namespace frugal
