// Random work on the allocator of a device of its own, always the same for the same character of the work.

#ifndef FRUGAL_TESTS_ALLOCATOR_RANDOM_WORK_H_
#define FRUGAL_TESTS_ALLOCATOR_RANDOM_WORK_H_

#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "allocator/device_allocator.h"
#include "simulated_gpu/machine/simulated_device.h"

namespace frugal {

// Work with a character of its own. Everything else comes from the seed.
struct Work {
  std::string name;
  Bytes memory;
  bool virtual_memory;
  int streams;
  // Drawn evenly between `least` and `most`, from so many different ones.
  struct Sizes {
    Bytes least;
    Bytes most;
    int count;
  } sizes;
  // Of a hundred operations.
  struct Often {
    int uses_by_others = 0;
    int advances = 0;
    int trims = 0;
    int idle_returns = 0;
    int captures = 0;  // that begin or end
    // Before so many it is drawn anew which calls of the device are to fail.
    int failures = 0;
    int sleeps = 0;  // of a third of the blocks, or that all wake
  } often = {};
  // How long a use keeps its stream busy.
  int64_t busy = 0;
  Bytes limit = kUnlimited;
  // Every so many operations all is freed, and the same begin again; 0: never.
  int turn = 0;
  // Private pools at a time, of which one is let go now and then, with a graph's inputs in it or without.
  int pools = 0;

  // Where calls fail, there is more to come to.
  int steps() const { return often.failures > 0 ? 8000 : 4000; }
  friend void PrintTo(const Work& work, std::ostream* stream) { *stream << work.name; }
};

// Of every kind that there is.
const std::vector<Work>& AllWorks();

class RandomWork {
 public:
  struct Live {
    Address address;
    Bytes size;
    Bytes requested;
  };

  explicit RandomWork(const Work& work, const PolicyOptions& options = {});
  virtual ~RandomWork() = default;
  RandomWork(const RandomWork&) = delete;
  RandomWork& operator=(const RandomWork&) = delete;

  // Grows for a while, shrinks for a while, as a training step does.
  void Step(int step);
  // As the end of a program whose driver works again.
  void GiveAllBack();

  const Work& work() const { return work_; }
  const sim::SimulatedDevice& device() const { return device_; }
  DeviceAllocator& allocator() { return allocator_; }
  // Device calls that have failed so far.
  uint64_t faults() const { return past_faults_ + device_.faults(); }
  // What the program was told, by the name of the status's code.
  const std::map<std::string, int>& told() const { return told_; }
  // Requests that it was refused since memory was out.
  int64_t out_of_memory() const { return out_of_memory_; }
  // What it was told of memory given back.
  Bytes returned() const { return returned_; }

 private:
  virtual void Allocated(const Live& /*block*/) {}
  virtual void Freed(const Live& /*block*/) {}

  int64_t Draw(int64_t least, int64_t most);
  Stream DrawStream() { return Stream{static_cast<uint64_t>(Draw(1, work_.streams))}; }
  void Allocate();
  // Every other pool is one of graphs.
  static MemorySource SourceOf(PoolId pool);
  PoolId DrawPool();
  void Note(const absl::Status& status);
  void NoteReturned(const absl::StatusOr<Bytes>& returned);
  void FreeOne();
  void UseByAnother();
  void DrawFailure();
  void BeginOrEndCapture();
  void SleepOrWake();

  const Work work_;
  std::mt19937_64 random_;
  sim::SimulatedDevice device_;
  AddressDirectory directory_;
  DeviceAllocator allocator_;
  std::vector<Bytes> sizes_;
  std::vector<Live> live_;
  std::optional<Stream> captured_;
  bool is_asleep_ = false;
  std::vector<uint64_t> pools_;  // their numbers
  uint64_t latest_pool_ = 0;
  uint64_t past_faults_ = 0;
  int64_t out_of_memory_ = 0;
  Bytes returned_;
  std::map<std::string, int> told_;
};

}  // namespace frugal

#endif  // FRUGAL_TESTS_ALLOCATOR_RANDOM_WORK_H_
