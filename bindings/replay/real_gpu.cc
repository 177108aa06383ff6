#include <c10/cuda/CUDACachingAllocator.h>
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/replay/gpu.h"

namespace frugal::replay {
namespace {

constexpr c10::DeviceIndex kDevice = 0;
// More than frugal_stats() has.
constexpr int kMostFigures = 256;

// frugal_stat_names() and frugal_stats() of bindings/c_api/c_api.h, which this process may lack.
using StatNames = const char* (*)();
using ReadStats = int (*)(int device, int64_t* figures, int capacity);

size_t KindNumber(std::string_view name) {
  return std::find(kCallKinds.begin(), kCallKinds.end(), name) - kCallKinds.begin();
}

// Adds the driver calls of frugal_alloc since the process began; false where that is not the allocator.
bool ReadOurCalls(Costs& costs) {
  const auto names = reinterpret_cast<StatNames>(dlsym(RTLD_DEFAULT, "frugal_stat_names"));
  const auto read = reinterpret_cast<ReadStats>(dlsym(RTLD_DEFAULT, "frugal_stats"));
  if (names == nullptr || read == nullptr) return false;
  std::vector<int64_t> figures(kMostFigures);
  if (read(kDevice, figures.data(), kMostFigures) < 0) return false;
  std::istringstream words(names());
  std::string word;
  for (size_t number = 0; words >> word && number < figures.size(); ++number) {
    std::string_view name = word;
    if (!name.starts_with("driver_")) continue;
    name.remove_prefix(std::string_view("driver_").size());
    if (name.ends_with("_calls")) {
      name.remove_suffix(std::string_view("_calls").size());
      const size_t kind = KindNumber(name);
      if (kind < kCallKinds.size()) costs.driver_calls[kind] = figures[number];
    } else if (name.ends_with("_ns") && !name.ends_with("_worst_ns")) {
      costs.driver_ns += figures[number];
    }
  }
  return true;
}

class RealGpu final : public Gpu {
 public:
  RealGpu() { Reset(); }

  void Reset() override {
    ReadStatistics();
    driver_ns_ = host_ns_ = 0;
    peak_ = used_;
    taken_before_ = taken_;
    given_back_before_ = given_back_;
    ours_before_ = {};
    ReadOurCalls(ours_before_);
  }

  Costs CostsSoFar() const override {
    Costs costs = {};
    if (ReadOurCalls(costs)) {
      costs = costs - ours_before_;
    } else {
      costs.driver_calls[KindNumber("malloc")] = taken_ - taken_before_;
      costs.driver_calls[KindNumber("free")] = given_back_ - given_back_before_;
      costs.driver_ns = driver_ns_;
    }
    costs.host_ns = host_ns_;
    return costs;
  }

  // Of the calls alone: what is asked between them takes longer than most of them.
  double SpentNs() const override { return static_cast<double>(host_ns_); }
  uint64_t MemoryPeak() const override { return peak_; }
  void CallBegins() override { call_began_ = Clock::now(); }

  void CallEnds() override {
    const uint64_t ns = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - call_began_).count();
    host_ns_ += ns;
    const int64_t before = taken_ + given_back_;
    ReadStatistics();
    if (taken_ + given_back_ != before) driver_ns_ += ns;
  }

 private:
  using Clock = std::chrono::steady_clock;

  // Those that the allocator counts in PyTorch's statistics, whichever it is.
  void ReadStatistics() {
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(kDevice);
    used_ = stats.reserved_bytes[0].current;
    peak_ = std::max(peak_, used_);
    taken_ = stats.num_device_alloc;
    given_back_ = stats.num_device_free;
  }

  Clock::time_point call_began_;
  uint64_t driver_ns_ = 0;
  uint64_t host_ns_ = 0;
  uint64_t used_ = 0;
  uint64_t peak_ = 0;
  // Calls that took memory from the device and gave it back.
  int64_t taken_ = 0;
  int64_t given_back_ = 0;
  // At the last Reset().
  int64_t taken_before_ = 0;
  int64_t given_back_before_ = 0;
  Costs ours_before_ = {};
};

}  // namespace

std::unique_ptr<Gpu> MakeRealGpu() { return std::make_unique<RealGpu>(); }

}  // namespace frugal::replay
