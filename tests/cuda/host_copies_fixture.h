// Copies in host memory on the simulated driver, whose calls are counted and fail as a test says. Its work is late: it
// moves bytes when the host has waited for it, and not before.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "cuda/driver_api.h"
#include "cuda/driver_device.h"
#include "cuda/host_copies.h"
#include "gtest/gtest.h"
#include "tests/cuda/driver_device_fixture.h"

namespace frugal {

// X(name), by DriverApi. All that HostCopies calls.
#define FRUGAL_WATCHED_CALLS(X)      \
  X(CtxGetCurrent)                   \
  X(CtxPushCurrent)                  \
  X(ThreadExchangeStreamCaptureMode) \
  X(MemHostAlloc)                    \
  X(MemFreeHost)                     \
  X(MemcpyDtoHAsync)                 \
  X(MemcpyHtoDAsync)                 \
  X(MemsetD8Async)                   \
  X(StreamCreate)                    \
  X(StreamDestroy)                   \
  X(StreamSynchronize)               \
  X(EventCreate)                     \
  X(EventDestroy)                    \
  X(EventRecord)                     \
  X(EventSynchronize)

struct Watch {
  std::map<std::string, int> calls;  // That were made.
  std::set<CUcontext> contexts;      // That were current then.
  int to_fail = std::numeric_limits<int>::max();
  bool and_all_after = false;
  int failed = 0;

  bool FailsNow() {
    const bool fails = --to_fail == 0 || (to_fail < 0 && and_all_after);
    failed += fails ? 1 : 0;
    return fails;
  }
};
inline Watch watch;

template <auto kMember>
struct WatchedCall;
template <typename... Args, CUresult (*DriverApi::*kMember)(Args...)>
struct WatchedCall<kMember> {
  static inline const char* name;
  static CUresult Call(Args... args) {
    if (watch.FailsNow()) return CUDA_ERROR_UNKNOWN;
    ++watch.calls[name];
    CUcontext current = nullptr;
    EXPECT_EQ((*DriverApi::Get())->CtxGetCurrent(&current), CUDA_SUCCESS);
    if (!absl::StartsWith(name, "Ctx")) watch.contexts.insert(current);
    return ((*DriverApi::Get())->*kMember)(args...);
  }
};

inline const DriverApi& WatchedApi() {
  static const DriverApi* const api = [] {
    auto* const watched = new DriverApi(**DriverApi::Get());
#define FRUGAL_WATCH(function)                          \
  WatchedCall<& DriverApi::function>::name = #function; \
  watched->function = &WatchedCall<&DriverApi::function>::Call;
    FRUGAL_WATCHED_CALLS(FRUGAL_WATCH)
#undef FRUGAL_WATCH
    return watched;
  }();
  return *api;
}

class HostCopiesTest : public testing::TestWithParam<HostCopies::Kind> {
 protected:
  using Ranges = std::vector<AddressRange>;

  HostCopiesTest() {
    setenv("FRUGAL_SIM_LATE", "1", 1);
    SIMULATED(frugal_sim_reset_counters)();
    device_ = *DriverDevice::Open(0);
    copies_ = MakeCopies();
    watch = Watch();
  }
  ~HostCopiesTest() override {
    watch.to_fail = std::numeric_limits<int>::max();
    copies_.reset();
    EXPECT_EQ(Live(), 0) << "of what the driver was asked for";
    for (const Address memory : taken_) EXPECT_TRUE(device_->Free(memory).ok());
  }

  std::unique_ptr<HostCopies> MakeCopies(UnifiedMemory::FileReader read = UnifiedMemory::ReadFile) {
    return std::make_unique<HostCopies>(WatchedApi(), reinterpret_cast<CUcontext>(device_->primary_context()), times_,
                                        std::move(read));
  }

  static void FailNext(int call, bool and_all_after = false) {
    watch.to_fail = call;
    watch.and_all_after = and_all_after;
  }
  static void FailNothing() { watch.to_fail = std::numeric_limits<int>::max(); }
  // Pinned pieces, streams and events that have not been given back.
  static int Live() {
    return watch.calls["MemHostAlloc"] - watch.calls["MemFreeHost"] + watch.calls["StreamCreate"] -
           watch.calls["StreamDestroy"] + watch.calls["EventCreate"] - watch.calls["EventDestroy"];
  }

  // Device memory, whose contents a test may write and read, until the test ends.
  Address NewMemory(Bytes size) { return taken_.emplace_back(*device_->Malloc(size)); }

  // Bytes that differ by address and `seed`.
  static void Write(const Ranges& ranges, size_t seed) {
    ForEachRun(ranges, seed, [](void* run, const char* bytes, size_t size) { std::memcpy(run, bytes, size); });
  }
  // Whether they are there.
  static bool Holds(const Ranges& ranges, size_t seed) {
    bool holds = true;
    ForEachRun(ranges, seed, [&holds](void* run, const char* bytes, size_t size) {
      holds = holds && std::memcmp(run, bytes, size) == 0;
    });
    return holds;
  }
  // As the memory that takes the place of what went.
  static void Lose(const Ranges& ranges) {
    for (const AddressRange& range : ranges) {
      std::memset(range.address.pointer(), 0xEE, static_cast<size_t>(range.size.count()));
    }
  }
  static Bytes Total(const Ranges& ranges) {
    Bytes total;
    for (const AddressRange& range : ranges) total += range.size;
    return total;
  }

  void CopyOut(const Ranges& ranges, HostCopies::Kind kind) {
    const absl::Status reserved = copies_->Reserve(ranges, kind);
    ASSERT_TRUE(reserved.ok()) << reserved;
    const absl::Status copied = copies_->CopyOut(ranges);
    ASSERT_TRUE(copied.ok()) << copied;
  }
  // What is copied.
  Bytes CopyIn(const Ranges& ranges) {
    const absl::StatusOr<Bytes> copied = copies_->CopyIn(ranges);
    EXPECT_TRUE(copied.ok()) << copied.status();
    return copied.value_or(Bytes(-1));
  }

  std::unique_ptr<DriverDevice> device_;
  DriverTimes times_;
  std::unique_ptr<HostCopies> copies_;

 private:
  std::vector<Address> taken_;

  template <typename Call>
  static void ForEachRun(const Ranges& ranges, size_t seed, Call call) {
    // As many as no piece of memory is long, or a multiple of it.
    constexpr size_t kNoise = 65521;
    static const std::string noise = [] {
      std::string bytes;
      std::minstd_rand random;
      while (bytes.size() < kNoise) bytes.push_back(static_cast<char>(random() >> 8));
      return bytes;
    }();
    for (const AddressRange& range : ranges) {
      auto left = static_cast<size_t>(range.size.count());
      for (Address at = range.address; left > 0;) {
        const size_t offset = (at.value() + seed * 997) % kNoise;
        const size_t size = std::min(left, kNoise - offset);
        call(at.pointer(), noise.data() + offset, size);
        at = at + Bytes(static_cast<int64_t>(size));
        left -= size;
      }
    }
  }
};

inline std::string KindName(const testing::TestParamInfo<HostCopies::Kind>& info) {
  return info.param == HostCopies::Kind::kPinned ? "Pinned" : "Pageable";
}

}  // namespace frugal
