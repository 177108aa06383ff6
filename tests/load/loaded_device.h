// A simulated device under load by many threads, with a naive account of what they hold.

#ifndef FRUGAL_TESTS_LOAD_LOADED_DEVICE_H_
#define FRUGAL_TESTS_LOAD_LOADED_DEVICE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "allocator/device_allocator.h"
#include "cuda/simulated/simulated_device.h"

namespace frugal {

// A block that a thread holds.
struct HeldBlock {
  Address address;
  Bytes size;
};

// Thread-safe. What it finds wrong it notes; the threads go on.
class LoadedDevice : public Reclaimer {
 public:
  LoadedDevice(Bytes memory, AddressDirectory& directory, const PolicyOptions& policy, const std::string& faults);

  // nullopt: out of memory.
  std::optional<HeldBlock> Allocate(Bytes size, Stream stream);
  void Free(const HeldBlock& block);
  // `stream` has work on the block for `duration` more ns.
  void Use(const HeldBlock& block, Stream stream, int64_t duration);
  // Keeps a block that nobody uses until memory is short.
  void Cache(const HeldBlock& block);
  // Gives memory back to the device in one of the ways there are.
  void GiveBack(uint64_t way);
  // Asks what programs ask while others allocate.
  void Look(const HeldBlock& block);
  void LetTimePass() { device_.AdvanceTo(device_.now() + sim::Nanoseconds(1)); }

  // Compares the books with the account, gives everything back and destroys the allocator. REQUIRES: no thread holds a
  // block any more.
  void End();

  Statistics statistics() const { return allocator_->GetStatistics(); }
  uint64_t driver_calls() const;
  uint64_t faults() const { return device_.faults(); }
  int64_t operations() const { return operations_.load(); }
  std::vector<std::string> problems() const;

  // By the allocator, which holds no lock then: it is called from here.
  bool ReleaseCaches() override;
  bool CollectGarbage() override { return false; }

 private:
  void Claim(const HeldBlock& block);
  void Disclaim(const HeldBlock& block);
  void Expect(bool holds, const char* what);

  sim::SimulatedDevice device_;
  AddressDirectory& directory_;
  std::unique_ptr<DeviceAllocator> allocator_;
  std::atomic<int64_t> operations_{0};
  std::atomic<int64_t> allocated_{0};
  std::atomic<int64_t> freed_{0};
  std::atomic<int64_t> refused_{0};

  mutable absl::Mutex mutex_;
  std::map<Address, Bytes> claims_ ABSL_GUARDED_BY(mutex_);
  std::vector<HeldBlock> cache_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> problems_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace frugal

#endif  // FRUGAL_TESTS_LOAD_LOADED_DEVICE_H_
