// The allocator of one device: hands out blocks in stream order, and moves free physical memory to
// where it is wanted. This is the policy's front door; everything else in this folder is behind it.
//
// Thread-safety: every call may be made from any thread.

#ifndef FRUGAL_ALLOCATOR_DEVICE_ALLOCATOR_H_
#define FRUGAL_ALLOCATOR_DEVICE_ALLOCATOR_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "allocator/backing/backing.h"
#include "allocator/backing/memory_limit.h"
#include "allocator/births/birth_epochs.h"
#include "allocator/block_returns.h"
#include "allocator/blocks/address_directory.h"
#include "allocator/blocks/allocator_locks.h"
#include "allocator/blocks/arena_set.h"
#include "allocator/blocks/block_map.h"
#include "allocator/blocks/ledger.h"
#include "allocator/blocks/statistics.h"
#include "allocator/blocks/stream_clocks.h"
#include "allocator/blocks/use_marks.h"
#include "allocator/miss_ladder.h"
#include "allocator/port/check.h"
#include "allocator/port/device.h"
#include "allocator/port/driver_costs.h"
#include "allocator/port/observer.h"
#include "allocator/port/units.h"

namespace frugal {

// A block handed out.
struct Allocation {
  Address address;
  Bytes size;  // rounded up to kGrain
};

// One block of a snapshot.
struct BlockView {
  Address address;
  Bytes size;
  Bytes requested;
  enum class State { kFree, kAllocated, kAwaitingStreams } state;
  void* annotation;
  // Of an allocated block that was recorded; see DeviceAllocator::RecordBirths.
  SiteId site = kUnsampled;
  int64_t epoch = -1;
};

// One run of mapped pages (or one segment of cudaMalloc), with its blocks in the order of addresses.
struct SegmentView {
  Address address;
  Bytes size;
  Stream stream;
  bool small;   // holds requests up to kSmallLimit
  bool mapped;  // made of handles that can move; false: a segment of cudaMalloc
  std::vector<BlockView> blocks;
};

// Once an invariant does not hold (see FRUGAL_CHECK), the books are not touched any more: no byte of this allocator's
// is handed out or given back to the device again, blocks handed out stay valid for ever, Allocate fails with kDataLoss
// and all else does nothing.
class DeviceAllocator {
 public:
  // All must outlive the allocator; `reclaimer` may be null. The allocator enters its ranges in `directory`.
  DeviceAllocator(Device& device, AddressDirectory& directory, Reclaimer* reclaimer);
  ~DeviceAllocator();
  DeviceAllocator(const DeviceAllocator&) = delete;
  DeviceAllocator& operator=(const DeviceAllocator&) = delete;

  // At least `requested` bytes (more than 0) whose previous use is over for work that is put into
  // `stream` from now on; the block has at least `least`. `annotation` stays with the block until the observer is told
  // to drop it. `sample` says how the block is recorded, once RecordBirths was called. kResourceExhausted:
  // LastOutOfMemory() says what was known. kDataLoss: see above. Other errors: the driver's, when it failed two
  // attempts at this request.
  absl::StatusOr<Allocation> Allocate(Bytes requested, Stream stream, void* annotation = nullptr,
                                      Bytes least = Bytes(0), Sample sample = {});

  // Gives back the block that starts at `address`. kNotFound: no block that was handed out starts there.
  // Returns the block's size. The driver cannot make this fail.
  absl::StatusOr<Bytes> Free(Address address);

  // `stream` uses the block that starts at `address`: it is not handed out again before `stream` has
  // passed the point where it was freed. kNotFound as for Free.
  absl::Status RecordStream(Address address, Stream stream);
  // The same of every stream that is known and sure to exist.
  absl::Status RecordKnownStreams(Address address);

  // The streams that may use the block that starts at `address`: its own, then those of RecordStream. Empty: no block
  // that was handed out starts there.
  std::vector<Stream> StreamsOf(Address address) const;

  // The block handed out that contains `address`.
  std::optional<BlockView> FindBlock(Address address) const;
  // The segment that contains `address`, without its blocks.
  std::optional<SegmentView> FindSegment(Address address) const;
  bool Owns(Address address) const;

  // Waits for frees that await a stream, and gives free pages back to the device until `enough` of them, or all, have
  // gone. What a stream that is being captured may still use stays. Returns what went. If the driver fails twice, its
  // error; what has not gone is still held.
  absl::StatusOr<Bytes> Trim(Bytes enough = kUnlimited);

  // Remembers where the work of each stream is now. Like ReturnIdle it fails if the driver does so twice.
  absl::Status MarkUse();
  // Gives whole free pages that nothing has used since the latest MarkUse, and whose last use is done, back to the
  // device until `enough` of them have gone; the host waits for no stream. Returns what went.
  absl::StatusOr<Bytes> ReturnIdle(Bytes enough);

  // The most physical memory to hold. `others` says, with no lock needed, how much of the same memory_limit others
  // hold (the native allocator); it may be null.
  void SetLimit(Bytes limit, Bytes (*others)(void* context), void* context);

  // kUnlimited: there is none.
  Bytes Limit() const;

  // What calls of the driver take on this machine, where that was measured.
  void SetDriverCosts(const DriverCosts& costs);
  // Memory that is left to the driver, which takes some for the code of kernels, for their stacks and for its tables as
  // a program goes on, and fails launches where there is none. It is used last, before an error: whoever needs every
  // byte gets it.
  void SetDriverReserve(Bytes reserve);
  // Off: memory stays at its address from when it was mapped until it goes back to the device, for programs that have
  // others (a network card, a communication library) use it by an address that was registered once.
  void SetRemapping(bool on);
  void SetOptions(const PolicyOptions& options);
  // The physical memory behind [start, start + size), in blocks handed out, stays there from now on, also when it is
  // free again, until it was let go (`keep` false) as often as it was kept. kNotFound: not all of it is ours.
  // kFailedPrecondition: it was not kept. Nothing has changed then.
  absl::Status KeepInPlace(Address start, Bytes size, bool keep);

  // null: nobody listens. The observer must outlive its stay.
  void SetObserver(Observer* observer);

  // From now on blocks are recorded by site and epoch of birth, as Allocate is told; all that is handed out at this
  // time counts to kNoSite, as born in the first epoch.
  void RecordBirths();
  // See BirthEpochs. They begin to record if nothing was recorded.
  void EndEpoch();
  void CollapseEpochs();
  void HalveEpochs();
  struct EpochReport {
    int64_t epochs_ended = 0;
    Bytes live;  // handed out now
    std::vector<SiteHistory> sites;
  };
  EpochReport GetEpochReport() const;
  std::vector<SiteUsage> SiteUsages() const;
  // See BirthEpochs::RestartPeak and TakeHighest.
  void RestartSitePeaks();
  Bytes TakeHighestRecorded();

  Statistics GetStatistics() const;
  void ResetPeakStatistics();
  void ResetAccumulatedStatistics();
  std::vector<SegmentView> Snapshot() const;
  // The largest free block.
  Bytes LargestFreeBlock() const;
  // Physical memory that is held: what is reserved, and what a device call that failed has left over, which the next
  // miss or Trim finds.
  Bytes Held() const;
  // Of the calling thread's last request that found no memory, whichever allocator it asked: another thread's that
  // fails at the same time is not meant.
  static const OutOfMemoryReport& LastOutOfMemory();

  // How much is checked in each call from now on; kDefaultCheckLevel at first.
  void SetCheckLevel(CheckLevel level);
  // Fails as FRUGAL_CHECK does, to the caller, if the books do not add up.
  void CheckInvariants() const;
  // kDataLoss and the invariant that did not hold, or OK.
  absl::Status Health() const;

 private:
  // --- What the functions of the same names do once they have the lock.
  absl::StatusOr<Allocation> AllocateLocked(Bytes requested, Stream stream, void* annotation, Bytes least,
                                            Sample sample) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Bytes> FreeLocked(Address address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Calls `once`, and if the driver failed a second time for what is left. Returns what went in both.
  absl::StatusOr<Bytes> GiveBack(absl::Status (DeviceAllocator::*once)(Bytes enough), Bytes enough)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(growth_mutex_, mutex_);
  absl::Status TrimOnce(Bytes enough) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status ReturnIdleOnce(Bytes enough) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status KeepInPlaceLocked(Address start, Bytes size, bool keep)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(growth_mutex_, mutex_);
  absl::Status ChangeEpochs(void (BirthEpochs::*change)()) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // A free block of at least `size`, taken out of the arena after a miss. Waits its turn, for which it lets go of the
  // lock.
  absl::StatusOr<Block*> TakeOnMiss(Arena& arena, Bytes size, Bytes requested) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A call failed, and what needed it is about to be tried once more. A call that failed has changed nothing, and often
  // it succeeds the next time: the driver reports failures of earlier work by whichever call comes next.
  void Absorb(const absl::Status& failure) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // As RecordStream.
  void AddStream(Block* block, Stream stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  BirthEpochs& Births() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckInvariantsLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // After a call that changed something.
  void CheckChange() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (check_level_ == CheckLevel::kFull) [[unlikely]]
      CheckInvariantsLocked();
  }
  void CheckBlock(const Block& block) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (check_level_ != CheckLevel::kOff) FRUGAL_CHECK(block.FitsItsNeighbours());
  }
  // `call(arguments...)` of this object, unless an invariant does not hold, or turns out not to.
  template <typename Result, typename... Arguments>
  Result Guarded(Result (DeviceAllocator::*call)(Arguments...), Arguments... arguments)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!health_.ok()) [[unlikely]]
      return health_;
    try {
      return (this->*call)(arguments...);
    } catch (const BrokenInvariant& broken) {
      return Break(broken);
    }
  }
  // Sets health_, and returns it.
  absl::Status Break(const BrokenInvariant& broken) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Held by whoever changes what is mapped, or how that is decided; see AllocatorLocks. What finds a free block, gives
  // one back or reads the books takes the other alone, and waits for nobody's call of the driver.
  absl::Mutex growth_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  mutable absl::Mutex mutex_;
  absl::Status health_ ABSL_GUARDED_BY(mutex_);
  AllocatorLocks lock_;  // both
  Ledger ledger_ ABSL_GUARDED_BY(mutex_);
  MemoryLimit memory_limit_ ABSL_GUARDED_BY(mutex_);
  StreamClocks clocks_ ABSL_GUARDED_BY(mutex_);
  ArenaSet arenas_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Backing> backing_ ABSL_GUARDED_BY(mutex_);
  BlockReturns returns_ ABSL_GUARDED_BY(mutex_);
  MissLadder ladder_ ABSL_GUARDED_BY(mutex_);
  UseMarks use_marks_ ABSL_GUARDED_BY(mutex_);
  BlockMap allocated_ ABSL_GUARDED_BY(mutex_);
  // Of blocks handed out: the streams other than the arena's that use them.
  absl::flat_hash_map<const Block*, absl::InlinedVector<Stream, 2>> other_streams_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<BirthEpochs> births_ ABSL_GUARDED_BY(mutex_);
  CheckLevel check_level_ ABSL_GUARDED_BY(mutex_) = kDefaultCheckLevel;
};

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_DEVICE_ALLOCATOR_H_
