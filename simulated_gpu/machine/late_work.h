// Work that touches its memory when it runs, which is when simulated time reaches its end, and not when it is enqueued.
// What was unmapped or handed over under it is found then.

#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "simulated_gpu/machine/clock.h"
#include "simulated_gpu/machine/graph.h"
#include "simulated_gpu/machine/launch_queue.h"
#include "simulated_gpu/machine/mapping_log.h"

namespace frugal::sim {

// Thread-safe. Work runs in the thread that moves time, one at a time, with no lock held that adding more takes.
class LateWork {
 public:
  static constexpr size_t kLongestQueue = LaunchQueue::kLongest;

  explicit LateWork(MappingLog& mappings) : mappings_(mappings) {}
  LateWork(const LateWork&) = delete;
  LateWork& operator=(const LateWork&) = delete;

  // Who is told of a fault, in one line. Until this is called nobody is.
  void OnFault(std::function<void(const std::string&)> told) { on_fault_ = std::move(told); }

  // To be run at `end`, after all that was added before it with the same end. Without `moves_data` only what it touches
  // is checked then.
  void Add(Nanoseconds end, std::string stream, std::shared_ptr<const Work> work, bool moves_data);
  // Runs what ends by `now`, in the order of time.
  void RunUntil(Nanoseconds now);
  // Checks what is left without running it: the process ends, and with it the GPU's work.
  void CheckTheRest();

  // The time at which the queue will be short enough for more; nullopt if it is.
  std::optional<Nanoseconds> QueueIsFullUntil() const;
  size_t outstanding() const;
  uint64_t faults() const { return faults_.load(); }

 private:
  struct Item {
    std::string stream;
    std::shared_ptr<const Work> work;
    bool moves_data;
    uint64_t moment;  // Of the mappings, when it was added.
  };
  using Key = std::pair<Nanoseconds, uint64_t>;  // End, and number.

  std::optional<std::pair<Key, Item>> TakeFirst(Nanoseconds now);
  // What was unmapped before the first outstanding work was added concerns nobody. Needs the lock.
  void ForgetMappings();
  // False, once it is told, if it would touch memory that is not what it was.
  bool Check(const Item& item, Nanoseconds end);

  MappingLog& mappings_;
  std::function<void(const std::string&)> on_fault_;

  std::mutex running_;  // Held by the thread that runs work.
  std::atomic<std::thread::id> runner_{};
  std::atomic<uint64_t> faults_{0};

  mutable std::mutex mutex_;
  std::map<Key, Item> items_;
  uint64_t next_ = 1;
};

}  // namespace frugal::sim
