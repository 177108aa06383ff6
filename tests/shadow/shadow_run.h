// Runs operations on an allocator and on the models beside it, and compares.
//
// What is checked, after each operation unless it says otherwise:
// - no byte of physical memory belongs to two blocks, and a block keeps its bytes for as long as it is handed out;
// - a block is handed out only where the last work on each of its bytes comes before what its stream does next;
// - a handle of any size is mapped, opened and unmapped whole, and unmapped only when the host knows that all work on
// it
//   is over;
// - every answer: sizes and alignment, kNotFound for what was not handed out, the streams of a block, limits;
// - memory that can be found is found: a request fails only if the handles of which nobody uses a byte, the pages that
//   the device still has within the limit, and the memory that others would give back are together too small for it;
// - what is failed on purpose costs nobody anything but the request at hand, and of that only the success: made again
// it
//   is served; whatever else is asked for fails only if the device fails twice;
// - the accounting: bytes and blocks handed out, peaks, memory held; and the snapshot, byte by byte (now and then);
// - ReturnIdle makes the host wait for nothing and returns nothing that was used since the mark; Trim leaves no handle
//   of which no byte is in use;
// - at the end everything can be freed, nothing is held then, and all memory is to be had in one piece.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "allocator/device_allocator.h"
#include "simulated_gpu/machine/simulated_device.h"
#include "tests/shadow/live_blocks.h"
#include "tests/shadow/memory_model.h"
#include "tests/shadow/operation.h"
#include "tests/shadow/stream_order.h"
#include "tests/shadow/verdict.h"
#include "tests/shadow/watched_device.h"

namespace frugal::shadow {

// How much was done, in all.
struct Tally {
  int64_t operations = 0;
  int64_t allocations = 0;
  int64_t out_of_memory = 0;
  int64_t faults = 0;
  int64_t device_calls = 0;
  int64_t stitches = 0;
  int64_t slept = 0;   // parts of blocks, each within a page, that lost their memory
  int64_t woken = 0;   // that have got new memory
  LargeHandles large;  // handles of more than one page

  Tally& operator+=(const Tally& other) {
    operations += other.operations;
    allocations += other.allocations;
    out_of_memory += other.out_of_memory;
    faults += other.faults;
    device_calls += other.device_calls;
    stitches += other.stitches;
    slept += other.slept;
    woken += other.woken;
    large += other.large;
    return *this;
  }
};

enum class CheckLevel {
  kOff,   // what the allocator answers, and the end
  kFast,  // and the models after each operation, the accounting now and then
  kFull,  // and the accounting and the allocator's own invariants after each
};

// Puts a device that lies between the allocator and the device that is watched; for tests of the models.
using Between = std::function<std::unique_ptr<Device>(Device&)>;

// Not thread-safe.
class ShadowRun final : public Reclaimer, public Observer {
 public:
  // Of the program only its device.
  ShadowRun(const Program& program, CheckLevel level, const Between& between = nullptr);
  ~ShadowRun() override;

  // From now on the device's calls fail by this plan: see FaultPlan.
  void SetFaults(const std::string& plan);
  void Step(const Operation& operation);
  // REQUIRES: no operation follows.
  void Finish();

  bool failed() const { return verdict_.failed(); }
  const std::string& failure() const { return verdict_.text(); }
  // The blocks that are handed out.
  absl::Span<const uint32_t> live() const { return blocks_.names(); }
  Tally tally() const;
  const sim::SimulatedDevice& device() const { return device_; }
  DeviceAllocator& allocator() { return *allocator_; }

 private:
  // Reclaimer.
  bool ReleaseCaches() override;
  bool CollectGarbage() override;
  // Observer.
  void OnMemoryEvent(const MemoryEvent& event) override;
  void DropAnnotation(void* annotation) override;

  void Do(const Operation& operation);
  void DoSeldom(const Operation& operation);
  void Allocate(const Operation& operation);
  void Free(uint32_t name);
  void FreeInside(const Operation& operation);
  void RecordStream(const Operation& operation);
  void Work(uint8_t stream, int64_t duration);
  void SetCaptured(uint8_t stream, bool captured);
  void Trim(Bytes enough);
  void ReturnIdle(Bytes enough);
  void SetLimit(Bytes limit, Bytes others);
  void Fail(const Operation& operation);
  void KeepPool(uint32_t pool);
  void ReleasePool(uint32_t pool);
  void EndEpoch(int64_t how);
  void SetOption(const Operation& operation);
  void Cache(Pages pages);

  // See shadow_sleep.cc. What is asleep has no last use: it is not touched.
  void DoSleep(const Operation& operation);
  void FallAsleep(int64_t tag);
  void LetGo();
  void TakeBackMemory(int64_t tag);
  void WakeUp(int64_t tag);
  void CheckParts(const char* what, absl::Span<const Sleep::Range> said, const MemoryModel::Parts& expected);
  void CheckAsleep();
  // Whether the block was asleep.
  bool FreeAsleep(uint32_t name, const LiveBlock& block);
  // Of blocks that are asleep and have this tag, and what lies in the same pages.
  MemoryModel::Parts LackingFor(int64_t tag) const;
  Bytes Lacking() const;
  // Where the block has memory.
  static MemoryModel::Parts InMemory(const LiveBlock& block);
  // Takes what was given back during a copy out of the model: nobody may have had it until now.
  void EndCopying();
  void DoMeanwhile();

  void Enter(uint32_t name, const LiveBlock& block, const Allocation& allocation);
  void CheckRefused(const absl::Status& status, Bytes size, Stream stream, MemorySource source, int64_t faults_before);
  // Whether what nobody uses would do for the request.
  bool CouldBeFound(Bytes size, Stream stream) const;
  // Statuses other than OK are fine if the device failed in the meantime, and again when the call was tried once more.
  void ExpectOkUnlessFailedTwice(const char* call, const absl::Status& status, int64_t faults_before);
  void CheckStatistics();
  // How often the device was told to fail and did.
  int64_t faults() const { return past_faults_ + static_cast<int64_t>(device_.faults()); }
  Bytes Headroom() const;
  bool AnyCaptured() const { return std::find(captured_.begin(), captured_.end(), true) != captured_.end(); }
  void EndWorld();

  const CheckLevel level_;
  const bool movable_;
  const Bytes device_bytes_;
  Verdict verdict_;
  sim::SimulatedDevice device_;
  StreamOrder order_;
  MemoryModel memory_;
  WatchedDevice watched_;
  std::unique_ptr<Device> between_;
  AddressDirectory directory_;
  std::unique_ptr<DeviceAllocator> allocator_;

  LiveBlocks blocks_;
  std::vector<PhysicalHandle> cached_;
  std::vector<uint32_t> garbage_;
  std::vector<Operation> meanwhile_;
  int64_t meanwhile_left_ = 0;
  enum class Sleeps : uint8_t { kNot, kFalling, kWaking } sleeps_ = Sleeps::kNot;
  MemoryModel::Parts to_go_;
  absl::flat_hash_map<uint32_t, LiveBlock> freed_asleep_;  // while they are copied
  Captured captured_ = {};
  std::set<uint32_t> pools_;   // that the program has named and not released
  bool has_segments_ = false;  // some blocks were asked for in memory of cudaMalloc
  bool has_unmarked_ = false;  // a block was freed of which an event could not be recorded for each of its streams
  Positions idle_mark_;
  PolicyOptions options_;
  Bytes limit_ = kUnlimited;
  Bytes others_;
  bool records_births_ = false;
  int64_t past_faults_ = 0;     // of the plans before
  int64_t faults_at_trim_ = 0;  // which left nothing held that is nowhere mapped
  int64_t annotations_ = 0;
  Tally tally_;
};

}  // namespace frugal::shadow
