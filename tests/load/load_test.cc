// 64 threads on 32 streams of each of 8 devices that have too little memory for them. Blocks are freed by other threads
// than allocated them, cached until memory is short, used by several streams, given back and asked about.
//
//   FRUGAL_LOAD_OPERATIONS=N  of all threads together (default 2,400,000)

#include <array>
#include <cstdio>
#include <latch>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"
#include "tests/environment.h"
#include "tests/histories/history.h"
#include "tests/load/loaded_device.h"

namespace frugal {
namespace {

constexpr uint64_t kThreads = 64;
constexpr uint64_t kStreams = 32;
constexpr uint64_t kDevices = 8;
// About half of what the threads would hold.
constexpr Bytes kMemory = MiB(160);
constexpr size_t kMostHeld = 24;

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
