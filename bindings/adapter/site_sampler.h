// Which allocations are recorded, and with which site. An allocation that is not recorded takes a few instructions;
// one that is, some hundred: the calls that led there are read and looked up.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/births/allocation_site.h"
#include "bindings/adapter/autograd_node.h"
#include "bindings/tracking/python_stack.h"
#include "bindings/tracking/site_table.h"

namespace frugal {

// Thread-safety: any thread; the phase is each thread's own.
class SiteSampler {
 public:
  // Allocations are recorded from now on, or no more. Off at first.
  static void SetOn(bool value) { is_on_.store(value, std::memory_order_relaxed); }
  static bool is_on() { return is_on_.load(std::memory_order_relaxed); }
  // See kDetailed. The calling thread does at once, others from their next sample on.
  static void RecordInDetail() {
    epoch_.fetch_add(1, std::memory_order_relaxed);
    thread_.until_next = 0;
  }

  // The phase of the program that the calling thread is in; returns the one before.
  static PhaseId SetPhase(PhaseId phase);
  // Where the calling thread is.
  static SiteId CurrentSite();

  // How an allocation of `size` is recorded, which the calling thread is about to make.
  static Sample Next(size_t size) {
    if (!is_on()) return {};
    ThreadState& thread = thread_;
    if (size < static_cast<size_t>(kSampleInterval.count())) {
      if ((thread.until_next -= static_cast<int64_t>(size)) >= 0) return {};
    } else if (thread.detailed_left == 0 && thread.epoch == epoch_.load(std::memory_order_relaxed) &&
               !IsCalledBySomebody()) {
      return {thread.phase_site};
    }
    return Take(size);
  }

 private:
  // In each epoch, and after each RecordInDetail, each thread records so many allocations whatever their size, so that
  // nothing escapes in a small program: a few milliseconds.
  static constexpr int64_t kDetailed = 10'000;

  struct ThreadState {
    int64_t until_next = 0;  // bytes of small blocks
    int64_t detailed_left = kDetailed;
    uint64_t random = 0;
    uint32_t epoch = 0;
    bool in_module = false;  // at the latest recorded allocation
    PhaseId phase = kNoPhase;
    SiteId phase_site = kNoSite;  // of the phase outside of Python
  };

  // Whether an allocation may have a site other than its phase's.
  static bool IsCalledBySomebody() { return KnowsPython() || KnowsAutograd(); }
  // What is drawn is the distance of a Poisson process, in bytes.
  static int64_t DrawDistance(ThreadState& thread);
  static Sample Take(size_t size);

  static std::atomic<bool> is_on_;
  static std::atomic<uint32_t> epoch_;
  static constinit thread_local ThreadState thread_;
};

}  // namespace frugal
