// The allocator of one device: hands out blocks in stream order, and moves free physical memory to
// where it is wanted. This is the policy's front door; everything else in this folder is behind it.
//
// Thread-safety: every call may be made from any thread.

#pragma once

#include <cstdint>
#include <optional>

#include "absl/base/attributes.h"
#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "allocator/allocator_settings.h"
#include "allocator/allocator_state.h"
#include "allocator/birth_record.h"
#include "allocator/births/allocation_site.h"
#include "allocator/blocks/address_directory.h"
#include "allocator/blocks/statistics.h"
#include "allocator/inspection.h"
#include "allocator/port/check.h"
#include "allocator/port/device.h"
#include "allocator/port/memory_source.h"
#include "allocator/port/pool_id.h"
#include "allocator/port/pool_traits.h"
#include "allocator/port/units.h"
#include "allocator/sleep.h"

namespace frugal {

// A block handed out.
struct Allocation {
  Address address;
  Bytes size;  // rounded up to kGrain
};

// Once an invariant does not hold (see FRUGAL_CHECK), the accounting is not touched any more: no byte of this
// allocator's is handed out or given back to the device again, blocks handed out stay valid for ever, Allocate fails
// with kDataLoss and all else does nothing.
class DeviceAllocator {
 public:
  // All must outlive the allocator; `reclaimer` may be null. The allocator enters its ranges in `directory`.
  DeviceAllocator(Device& device, AddressDirectory& directory, Reclaimer* reclaimer)
      : state_(device, directory, reclaimer, this) {}
  DeviceAllocator(const DeviceAllocator&) = delete;
  DeviceAllocator& operator=(const DeviceAllocator&) = delete;

  // At least `requested` bytes (more than 0) whose previous use is over for work that is put into
  // `stream` from now on; the block has at least `least`. `annotation` stays with the block until the observer is told
  // to drop it. `sample` says how the block is recorded, once births().Start() was called. kResourceExhausted:
  // LastOutOfMemory() says what was known. kDataLoss: see above. Other errors: the driver's, when it failed two
  // attempts at this request.
  absl::StatusOr<Allocation> Allocate(Bytes requested, Stream stream, void* annotation = nullptr,
                                      Bytes least = Bytes(0), Sample sample = {});

  // The same from this source. Free blocks of a private pool serve nobody else; its free handles may move to others.
  // `only_free`: kResourceExhausted if no free block of the pool serves, with nothing said of that.
  absl::StatusOr<Allocation> AllocateFrom(MemorySource source, Bytes requested, Stream stream,
                                          void* annotation = nullptr, Bytes least = Bytes(0), Sample sample = {},
                                          bool only_free = false);
  // The bytes [address, address + requested), rounded up, which are free memory of the pool and, where it is given, of
  // the stream. kNotFound: they are not.
  absl::StatusOr<Allocation> AllocateAt(PoolId pool, std::optional<Stream> stream, Address address, Bytes requested,
                                        void* annotation = nullptr, Sample sample = {});
  // How the pool is served from now on. REQUIRES: `traits.source` is what it was, or the pool has no memory.
  void SetPoolTraits(PoolId pool, const PoolTraits& traits);
  // A graph may be captured that reads what the pool has in use, or will have, or (`captured` false) it is to be as if:
  // see KeptPools. REQUIRES: from now on the pool is not asked for movable memory. `tag`: see Sleep; 0: none.
  absl::Status KeepPool(PoolId pool, bool captured = true, uint8_t tag = 0);
  // Nobody holds the pool any more. What is in use there stays so.
  absl::Status ReleasePool(PoolId pool);
  // Whether ReturnReleased has something to do: one load.
  bool HasReleasedPools() const ABSL_NO_THREAD_SAFETY_ANALYSIS { return state_.pools.has_unread(); }
  // Gives free memory of kept pools that were released, and that no graph can read, back to the device. The host waits
  // for all work. Returns what went.
  absl::StatusOr<Bytes> ReturnReleased();

  // Gives back the block that starts at `address`. kNotFound: no block that was handed out starts there.
  // Returns the block's size. The driver cannot make this fail.
  absl::StatusOr<Bytes> Free(Address address);

  // `stream` uses the block that starts at `address`: it is not handed out again before `stream` has
  // passed the point where it was freed. kNotFound as for Free.
  absl::Status RecordStream(Address address, Stream stream);
  // The same of every stream that is known and sure to exist.
  absl::Status RecordKnownStreams(Address address);

  // Waits for frees that await a stream, and gives free pages back to the device until `enough` of them, or all, have
  // gone. What a stream that is being captured may still use stays. Returns what went. If the driver fails twice, its
  // error; what has not gone is still held. `only`: of that pool alone.
  absl::StatusOr<Bytes> Trim(Bytes enough = kUnlimited, OnlyPool only = std::nullopt);

  // The same, but waits for nothing: for memory that goes to others. What not all streams have passed stays, and can be
  // tried for again.
  absl::StatusOr<Bytes> ReturnPassed(Bytes enough);
  // Whether all streams had passed, by now, what they were told up to the latest ReturnPassed: then there is no more.
  bool HaveStreamsPassed();
  // Whether no stream that is known has anything to do, or is perhaps being captured. Nobody waits.
  bool IsIdle();

  // Remembers where the work of each stream is now. Like ReturnIdle it fails if the driver does so twice.
  absl::Status MarkUse();
  // Gives whole free pages that nothing has used since the latest MarkUse, and whose last use is done, back to the
  // device until `enough` of them have gone; the host waits for no stream. Returns what went.
  absl::StatusOr<Bytes> ReturnIdle(Bytes enough);

  // The physical memory behind [start, start + size), in blocks handed out, stays there from now on, also when it is
  // free again, until it was let go (`keep` false) as often as it was kept. kNotFound: not all of it is ours,
  // or not handed out while it is to be kept. kFailedPrecondition: it was not kept. Nothing has changed then.
  absl::Status KeepInPlace(Address start, Bytes size, bool keep);

  Statistics GetStatistics() const;
  void ResetPeakStatistics();
  void ResetAccumulatedStatistics();

  // What else there is to do with an allocator, by concern. Each refers to this allocator, which must outlive it.
  BirthRecord births() { return BirthRecord(state_); }
  AllocatorSettings settings() { return AllocatorSettings(state_); }
  Inspection inspect() const { return Inspection(state_); }
  Sleep sleep() { return Sleep(state_); }

 private:
  // --- What the functions of the same names do once they have the lock.
  absl::StatusOr<Allocation> AllocateLocked(Bytes requested, Stream stream, void* annotation, Bytes least,
                                            Sample sample) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mutex);
  absl::StatusOr<Allocation> AllocateFromLocked(MemorySource source, Bytes requested, Stream stream, void* annotation,
                                                Bytes least, Sample sample, bool only_free)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mutex);
  absl::StatusOr<Allocation> AllocateAtLocked(PoolId pool, std::optional<Stream> stream, Address address,
                                              Bytes requested, void* annotation, Sample sample)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mutex);
  Allocation HandOut(Block* block, Bytes requested, void* annotation, Sample sample)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mutex);
  absl::StatusOr<Bytes> ReturnReleasedLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.growth_mutex, state_.mutex);
  absl::Status KeepPoolLocked(PoolId pool, bool captured, uint8_t tag)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.growth_mutex, state_.mutex);
  absl::Status ReleasePoolLocked(PoolId pool) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mutex);
  absl::StatusOr<Bytes> FreeLocked(Address address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mutex);
  // Calls `once`, and if the driver failed a second time for what is left. Returns what went in both.
  template <typename... Only>
  absl::StatusOr<Bytes> GiveBack(absl::Status (DeviceAllocator::*once)(Bytes enough, Only... only), Bytes enough,
                                 Only... only) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.growth_mutex, state_.mutex);
  absl::Status TrimOnce(Bytes enough, OnlyPool only) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.growth_mutex, state_.mutex);
  absl::Status ReturnPassedOnce(Bytes enough) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mutex);
  bool HaveStreamsPassedLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mutex);
  absl::Status ReturnIdleOnce(Bytes enough) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mutex);
  absl::Status RecordStreamLocked(Address address, Stream stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mutex);
  absl::Status RecordKnownStreamsLocked(Address address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mutex);
  bool IsIdleLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mutex);
  absl::Status MarkUseLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mutex);
  absl::Status KeepInPlaceLocked(Address start, Bytes size, bool keep)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.growth_mutex, state_.mutex);

  // What the functions of the same names do while somebody listens, or once an invariant does not hold.
  absl::StatusOr<Allocation> AllocateWatched(Bytes requested, Stream stream, void* annotation, Bytes least,
                                             Sample sample);
  // What `allocate` made, if those who listen have heard of it without an exception.
  template <typename Call>
  absl::StatusOr<Allocation> Watched(Call&& allocate);
  absl::StatusOr<Bytes> FreeWatched(Address address);

  // A block cut from the best fitting free one of the arena, or else of its stream and pool; null: there is none.
  Block* TakeFree(Arena& arena, Bytes size) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mutex);
  // A block of `size`, after a miss of the arena; it may be another's of the same stream and pool. Waits until nobody
  // else changes what is mapped, for which it lets go of the lock.
  absl::StatusOr<Block*> TakeOnMiss(Arena& arena, Bytes size, Bytes requested)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mutex);
  // The rest of a free of a block that `has_more`.
  void FreeWithMore(Arena& arena, Block* block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mutex);
  // As RecordStream.
  void AddStream(Block* block, Stream stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mutex);
  // What is returned once an invariant does not hold, `health` being why.
  static absl::Status Fail(const absl::Status& health) { return health; }
  static absl::StatusOr<Bytes> FreeNothing(const absl::Status& /*health*/) { return Bytes(0); }
  static absl::Status DoNothing(const absl::Status& /*health*/) { return absl::OkStatus(); }

  // `call(arguments...)` of this object. If an invariant turns out not to hold, `otherwise(health)`.
  template <typename Result, typename Otherwise, typename... Parameters, typename... Arguments>
  ABSL_ATTRIBUTE_ALWAYS_INLINE Result Guarded(Result (DeviceAllocator::*call)(Parameters...), Otherwise otherwise,
                                              Arguments... arguments) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mutex) {
    try {
      return (this->*call)(arguments...);
    } catch (const BrokenInvariant& broken) {
      return otherwise(state_.Break(broken));
    }
  }
  // The same with the lock; at once `otherwise(health)` if an invariant does not hold.
  template <typename Result, typename Otherwise, typename... Parameters, typename... Arguments>
  Result WithLock(Result (DeviceAllocator::*call)(Parameters...), Otherwise otherwise, Arguments... arguments)
      ABSL_LOCKS_EXCLUDED(state_.mutex) {
    absl::MutexLock lock(&state_.mutex);
    if (!state_.health.ok()) return otherwise(state_.health);
    return Guarded(call, otherwise, arguments...);
  }
  // The same with both locks; `otherwise` is Fail.
  template <typename Result, typename... Parameters, typename... Arguments>
  Result WithBothLocks(Result (DeviceAllocator::*call)(Parameters...), Arguments... arguments)
      ABSL_LOCKS_EXCLUDED(state_.growth_mutex, state_.mutex) {
    ObserverQueue::Call watched(state_.observers);
    Result result = [&]() -> Result {
      absl::MutexLock growth(&state_.growth_mutex);
      return WithLock(call, &Fail, arguments...);
    }();
    watched.Finish();
    return result;
  }

  AllocatorState state_;
};

}  // namespace frugal
