// 64 threads on 32 streams of each of 8 devices that have too little memory for them. Blocks are freed by other threads
// than allocated them, cached until memory is short, used by several streams, given back and asked about.
//
//   FRUGAL_LOAD_OPERATIONS=N  of all threads together (default 2,400,000)

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <latch>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "allocator/device_allocator.h"
#include "gtest/gtest.h"
#include "simulated_gpu/machine/simulated_device.h"
#include "tests/environment.h"

namespace frugal {
namespace {

constexpr uint64_t kThreads = 64;
constexpr uint64_t kStreams = 32;
constexpr uint64_t kDevices = 8;
// About half of what the threads would hold.
constexpr Bytes kMemory = MiB(160);
constexpr size_t kMostHeld = 24;

// A block that a thread holds.
struct HeldBlock {
  Address address;
  Bytes size;
};

// Thread-safe. What it finds wrong it notes; the threads go on.
class LoadedDevice : public Reclaimer {
 public:
  LoadedDevice(Bytes memory, AddressDirectory& directory, const PolicyOptions& policy, const std::string& faults)
      : device_({.memory = memory}),
        directory_(directory),
        allocator_(std::make_unique<DeviceAllocator>(device_, directory, this)) {
    allocator_->settings().SetCheckLevel(CheckLevel::kFast);
    allocator_->settings().SetOptions(policy);
    Expect(device_.SetFaults(faults), "the fault plan is understood");
  }

  // nullopt: out of memory.
  std::optional<HeldBlock> Allocate(Bytes size, Stream stream) {
    ++operations_;
    absl::StatusOr<Allocation> allocation = allocator_->Allocate(size, stream);
    if (!allocation.ok()) {
      // Where calls fail, a request can meet two that do, and then has the driver's own error.
      const bool out_of_memory = absl::IsResourceExhausted(allocation.status());
      Expect(out_of_memory || device_.faults() > 0, "a request that is refused is out of memory");
      if (out_of_memory) ++refused_;
      return std::nullopt;
    }
    ++allocated_;
    const HeldBlock block{allocation->address, allocation->size};
    Claim(block);
    device_.MakeBusyUntil(stream, device_.now() + sim::Nanoseconds(20));
    return block;
  }
  void Free(const HeldBlock& block) {
    ++operations_;
    Disclaim(block);
    const absl::StatusOr<Bytes> freed = allocator_->Free(block.address);
    Expect(freed.ok() && *freed == block.size, "a block that was handed out can be freed");
    ++freed_;
  }
  // `stream` has work on the block for `duration` more ns.
  void Use(const HeldBlock& block, Stream stream, int64_t duration) {
    ++operations_;
    device_.MakeBusyUntil(stream, device_.now() + sim::Nanoseconds(duration));
    Expect(allocator_->RecordStream(block.address, stream).ok(), "a stream of a block can be recorded");
  }
  // Keeps a block that nobody uses until memory is short.
  void Cache(const HeldBlock& block) {
    absl::MutexLock lock(&mutex_);
    cache_.push_back(block);
  }
  // Gives memory back to the device in one of the ways there are.
  void GiveBack(uint64_t way) {
    ++operations_;
    absl::Status status;
    if (way % 3 == 0) status = allocator_->MarkUse();
    if (way % 3 == 1) status = allocator_->ReturnIdle(MiB(8)).status();
    if (way % 3 == 2) status = allocator_->Trim(MiB(8)).status();
    Expect(status.ok() || device_.faults() > 0, "memory can be given back");
  }
  // Asks what programs ask while others allocate.
  void Look(const HeldBlock& block) {
    ++operations_;
    Expect(directory_.Find(block.address) == allocator_.get(), "the directory knows whose a block is");
    const std::optional<BlockView> view = allocator_->inspect().FindBlock(block.address);
    Expect(view.has_value() && view->address == block.address && view->size == block.size, "a block is found");
    const Statistics statistics = allocator_->GetStatistics();
    Expect(statistics.reserved_bytes[SizeGroup::kAll].current >= statistics.active_bytes()[SizeGroup::kAll].current,
           "no more is active than is reserved");
  }
  void LetTimePass() { device_.AdvanceTo(device_.now() + sim::Nanoseconds(1)); }

  // Compares the books with the account, gives everything back and destroys the allocator. REQUIRES: no thread holds a
  // block any more.
  void End() {
    ReleaseCaches();
    allocator_->inspect().CheckInvariants();
    const Statistics statistics = allocator_->GetStatistics();
    {
      absl::MutexLock lock(&mutex_);
      if (!claims_.empty()) problems_.push_back("a block was forgotten");
    }
    Expect(statistics.allocated_bytes[SizeGroup::kAll].current == 0, "nothing is allocated at the end");
    Expect(statistics.allocation[SizeGroup::kAll].allocated == allocated_, "every allocation was counted once");
    Expect(statistics.allocation[SizeGroup::kAll].freed == freed_, "every free was counted once");
    Expect(statistics.num_ooms == refused_, "every refusal was counted once");
    Expect(device_.used() == allocator_->inspect().Held(), "what is held is what the device has given");
    Expect(device_.SetFaults(""), "faults end");
    device_.AdvanceTo(device_.now() + sim::Nanoseconds(1'000'000));
    Expect(allocator_->Trim().ok() && device_.used() == Bytes(0), "all memory goes back");
    allocator_.reset();
    Expect(device_.live_events() == 0, "all events go back");
  }

  Statistics statistics() const { return allocator_->GetStatistics(); }
  uint64_t driver_calls() const {
    uint64_t calls = 0;
    for (size_t kind = 0; kind < sim::kCallKindNames.size(); ++kind) {
      calls += device_.calls(static_cast<sim::CallKind>(kind));
    }
    return calls;
  }
  uint64_t faults() const { return device_.faults(); }
  int64_t operations() const { return operations_.load(); }
  std::vector<std::string> problems() const {
    absl::MutexLock lock(&mutex_);
    return problems_;
  }

  // By the allocator, which holds no lock then: it is called from here.
  bool ReleaseCaches() override {
    std::vector<HeldBlock> released;
    {
      absl::MutexLock lock(&mutex_);
      released.swap(cache_);
    }
    for (const HeldBlock& block : released) Free(block);
    return !released.empty();
  }
  bool CollectGarbage() override { return false; }

 private:
  void Claim(const HeldBlock& block) {
    absl::MutexLock lock(&mutex_);
    const auto after = claims_.lower_bound(block.address);
    const bool clear =
        (after == claims_.end() || block.address + block.size <= after->first) &&
        (after == claims_.begin() || std::prev(after)->first + std::prev(after)->second <= block.address);
    if (!clear) problems_.push_back("a byte was handed out twice");
    claims_[block.address] = block.size;
  }
  void Disclaim(const HeldBlock& block) {
    absl::MutexLock lock(&mutex_);
    claims_.erase(block.address);
  }
  void Expect(bool holds, const char* what) {
    if (holds) return;
    absl::MutexLock lock(&mutex_);
    problems_.push_back(std::string("does not hold: ") + what);
  }

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

struct Owned {
  LoadedDevice* device;
  HeldBlock block;
};

// Where threads leave blocks for others. Thread-safe.
class Mailbox {
 public:
  void Put(const Owned& owned) {
    absl::MutexLock lock(&mutex_);
    blocks_.push_back(owned);
  }
  void TakeAll(std::vector<Owned>& into) {
    absl::MutexLock lock(&mutex_);
    into.insert(into.end(), blocks_.begin(), blocks_.end());
    blocks_.clear();
  }

 private:
  absl::Mutex mutex_;
  std::vector<Owned> blocks_ ABSL_GUARDED_BY(mutex_);
};

class Load : public testing::Test {
 protected:
  using Devices = std::vector<std::unique_ptr<LoadedDevice>>;

  static int64_t Operations() { return FromEnvironment("FRUGAL_LOAD_OPERATIONS", 2'400'000 / kSlowdown); }

  // What one thread does.
  class Worker {
   public:
    Worker(uint64_t seed, Devices& devices, std::vector<Mailbox>& mailboxes)
        : random_(seed), devices_(devices), mailboxes_(mailboxes), mailbox_(mailboxes[seed % kThreads]) {}

    // `all_hold`: the threads that do not hold all that they can yet. Without it, threads that a busy machine runs one
    // after another would never be short of memory.
    void Run(int64_t steps, std::latch& all_hold) {
      for (size_t n = 0; n < kMostHeld; ++n) Allocate();
      all_hold.arrive_and_wait();
      for (int64_t step = 0; step < steps; ++step) Step();
      mailbox_.TakeAll(held_);
      while (!held_.empty()) FreeAny();
    }

   private:
    uint64_t Draw(uint64_t below) { return random_() % below; }
    Stream DrawStream() { return Stream{1 + Draw(kStreams)}; }
    Bytes DrawSize() {
      const uint64_t kind = Draw(100);
      const uint64_t most = kind < 60 ? 64 << 10 : kind < 85 ? 1 << 20 : 12 << 20;
      return Bytes(static_cast<int64_t>(1 + Draw(most)));
    }
    Owned TakeAny() {
      std::swap(held_[Draw(held_.size())], held_.back());
      const Owned taken = held_.back();
      held_.pop_back();
      return taken;
    }
    void FreeAny() {
      const Owned owned = TakeAny();
      owned.device->Free(owned.block);
    }

    void Allocate() {
      LoadedDevice& device = *devices_[Draw(kDevices)];
      device.LetTimePass();
      const std::optional<HeldBlock> block = device.Allocate(DrawSize(), DrawStream());
      if (block.has_value()) {
        held_.push_back({&device, *block});
      } else {
        // As a program does that catches the error.
        for (size_t i = held_.size() / 2; i > 0; --i) FreeAny();
      }
    }

    void Step() {
      const uint64_t choice = Draw(100);
      if (held_.empty() || (choice < 46 && held_.size() < kMostHeld)) return Allocate();
      Owned& any = held_[Draw(held_.size())];
      if (choice < 84) {
        FreeAny();
      } else if (choice < 88) {
        const Owned owned = TakeAny();
        owned.device->Cache(owned.block);
      } else if (choice < 93) {
        mailboxes_[Draw(kThreads)].Put(TakeAny());
        mailbox_.TakeAll(held_);
      } else if (choice < 98) {
        any.device->Use(any.block, DrawStream(), static_cast<int64_t>(Draw(400)));
      } else if (choice < 99) {
        any.device->Look(any.block);
      } else {
        devices_[Draw(kDevices)]->GiveBack(Draw(60));
      }
    }

    std::mt19937_64 random_;
    Devices& devices_;
    std::vector<Mailbox>& mailboxes_;
    Mailbox& mailbox_;
    std::vector<Owned> held_;
  };

  // Every other device has handles of several pages, which devices so small have only with another policy than the
  // usual one.
  static PolicyOptions PolicyOf(uint64_t device) {
    PolicyOptions options;
    if (device % 2 == 0) return options;
    options.waste_part = device % 4 == 1 ? 1 : 32;
    options.request_part = 1;
    options.piece_part = 4;
    return options;
  }

  // `faults(n)`: the fault plan of device n.
  template <typename Faults>
  static void Run(const char* what, int64_t operations, Faults faults) {
    AddressDirectory directory;
    Devices devices;
    for (uint64_t n = 0; n < kDevices; ++n) {
      devices.push_back(std::make_unique<LoadedDevice>(kMemory, directory, PolicyOf(n), faults(n)));
    }
    std::vector<Mailbox> mailboxes(kThreads);
    std::latch all_hold(kThreads);
    std::vector<std::thread> threads;
    for (uint64_t n = 0; n < kThreads; ++n) {
      threads.emplace_back([&, n] {
        Worker(TestSeed() * kThreads + n, devices, mailboxes)
            .Run(operations / static_cast<int64_t>(kThreads), all_hold);
      });
    }
    for (std::thread& thread : threads) thread.join();
    // What was put into a mailbox after its owner had looked for the last time.
    std::vector<Owned> left;
    for (Mailbox& mailbox : mailboxes) mailbox.TakeAll(left);
    for (const Owned& owned : left) owned.device->Free(owned.block);
    End(what, devices);
  }

  static void End(const char* what, Devices& devices) {
    int64_t done = 0;
    int64_t refused = 0;
    int64_t stitches = 0;
    int64_t beyond_one_page = 0;
    int64_t stream_waits = 0;
    int64_t host_waits = 0;
    uint64_t calls = 0;
    uint64_t faults = 0;
    for (const std::unique_ptr<LoadedDevice>& device : devices) {
      const Statistics statistics = device->statistics();
      refused += statistics.num_ooms;
      stitches += statistics.num_stitches;
      beyond_one_page += statistics.reserved_bytes[SizeGroup::kAll].allocated / kPageSize.count();
      beyond_one_page -= statistics.num_device_alloc;
      stream_waits += statistics.num_stream_waits;
      host_waits += statistics.num_sync_all_streams;
      faults += device->faults();
      device->End();
      done += device->operations();
      calls += device->driver_calls();
      for (const std::string& problem : device->problems()) ADD_FAILURE() << problem;
    }
    EXPECT_GT(refused, 0) << "memory was short";
    EXPECT_GT(stitches, 0);
    EXPECT_GT(beyond_one_page, 0) << "handles of several pages were made";
    std::printf("%s\n",
                absl::StrCat("COUNTS ", what, ", ", kThreads, " threads, ", kStreams, " streams, ", kDevices,
                             " devices: ", done, " operations, ", refused, " out of memory, ", stitches, " stitches, ",
                             beyond_one_page, " pages of handles beyond their first, ", stream_waits, " stream waits, ",
                             host_waits, " host waits, ", calls, " device calls, ", faults, " faults")
                    .c_str());
  }
};

TEST_F(Load, LosesNothingAndLeavesTheBooksExact) {
  Run("load", Operations(), [](uint64_t) { return ""; });
}

TEST_F(Load, LosesNothingWhileCallsFail) {
  Run("load with faults", Operations() / 4, [](uint64_t device) {
    std::mt19937_64 random(device);
    std::string plan;
    for (const char* kind : {"create", "map", "set_access", "unmap", "release", "sync", "event_record", "event_query",
                             "stream_wait", "memory_info", "event_create", "capture_query"}) {
      for (const char* error : {"out_of_memory", "unknown", "late_launch_failed"}) {
        absl::StrAppend(&plan, plan.empty() ? "" : ",", kind, "@", 1 + random() % 4000, "=", error);
      }
    }
    return plan;
  });
}

}  // namespace
}  // namespace frugal
