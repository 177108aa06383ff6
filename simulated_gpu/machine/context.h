// Contexts: what streams, events and a thread's calls belong to. Each GPU has a primary one; green contexts are parts
// of a GPU with default streams of their own.

#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "simulated_gpu/machine/error.h"

namespace frugal::sim {

class Context {
 public:
  enum class Kind { kPrimary, kGreen };

  Context(uint64_t id, int gpu, Kind kind, unsigned multiprocessors)
      : id_(id), gpu_(gpu), kind_(kind), multiprocessors_(multiprocessors) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Never used twice in a process.
  uint64_t id() const { return id_; }
  int gpu() const { return gpu_; }
  bool is_green() const { return kind_ == Kind::kGreen; }
  unsigned multiprocessors() const { return multiprocessors_; }
  bool is_destroyed() const { return destroyed_.load(std::memory_order_relaxed); }
  // "GPU 0", or "green context 3 of GPU 0".
  std::string Name() const;
  // Whether what waits for all of `scope` waits for this context's work: a primary context stands for its whole GPU.
  bool IsWithin(const Context& scope) const { return this == &scope || (!scope.is_green() && scope.gpu_ == gpu_); }

 private:
  friend class Contexts;

  const uint64_t id_;
  const int gpu_;
  const Kind kind_;
  const unsigned multiprocessors_;
  std::atomic<bool> destroyed_{false};
};

// Those of a machine. Thread-safe; a primary context is found without a lock.
class Contexts {
 public:
  // Of so many GPUs, each of so many multiprocessors.
  Contexts(int gpus, unsigned multiprocessors);
  Contexts(const Contexts&) = delete;
  Contexts& operator=(const Contexts&) = delete;

  Context& primary(int gpu) { return *primary_[static_cast<size_t>(gpu)]; }
  Context* CreateGreen(int gpu, unsigned multiprocessors);
  // kInvalidContext for one that is not green, or gone already. A context that is gone stays where it is in memory.
  Error DestroyGreen(Context& context);
  // The context at that address, gone or not; nullptr if there never was one.
  Context* Find(const void* address) const;

 private:
  std::vector<std::unique_ptr<Context>> primary_;

  mutable std::mutex mutex_;
  uint64_t next_id_ = 1;
  std::deque<Context> green_;
};

}  // namespace frugal::sim
