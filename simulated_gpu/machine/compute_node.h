// What the processes of one machine share: the memory of each GPU, the driver's table of mapped handles and the lock
// inside the driver. A file that all of them map stands for it (FRUGAL_SIM_NODE).

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "allocator/port/units.h"
#include "simulated_gpu/machine/clock.h"
#include "simulated_gpu/machine/quota.h"

namespace frugal::sim {

// Every process has a share, in which it alone writes, and a lock of the kernel's on that share, which goes with the
// process however it ends. What is taken is the sum of the shares, so that a process may die at any instruction; a
// share without a lock is a dead process's, and counts for nothing.
//
// Thread-safe. After Leave() everything is refused.
class ComputeNode {
 public:
  static constexpr int kMostProcesses = 256;
  static constexpr int kMostGpus = 16;

  // What the processes must agree about; whoever comes to a node without processes decides.
  struct Setup {
    int gpus = 1;
    Bytes memory;  // Of each GPU.
    int64_t mapped_handles = 0;
  };

  // Makes the file if there is none. nullptr, with one line in `problem` that says what to do, if it is not a node's,
  // not this user's own, of other GPUs, or full.
  static std::unique_ptr<ComputeNode> Open(const std::string& path, const Setup& setup, std::string* problem);

  ~ComputeNode();
  ComputeNode(const ComputeNode&) = delete;
  ComputeNode& operator=(const ComputeNode&) = delete;

  // False if there is not as much left on the node's GPU; nothing has changed then.
  bool TakeMemory(int gpu, Bytes size) { return Take(gpu, size.count()); }
  void GiveBackMemory(int gpu, Bytes size) { GiveBack(gpu, size.count()); }
  Bytes FreeMemory(int gpu);

  // Of the table of mapped handles. False if there are not as many left; nothing has changed then.
  bool TakeMappedHandles(int64_t count) { return Take(kMappedHandles, count); }
  void GiveBackMappedHandles(int64_t count) { GiveBack(kMappedHandles, count); }
  // Of all processes.
  int64_t mapped_handles();

  // When a call that may begin at `begin` and costs `cost` begins, behind those of all processes. Clocks that tests set
  // and the wall's have nothing in common, so each kind has a lock of its own.
  Nanoseconds EnterDriver(Nanoseconds begin, Nanoseconds cost, bool manual_clock);

  // Processes with a share.
  int processes();

  // In a process that was forked: the share stays the parent's. Takes no lock.
  void Leave();

 private:
  static constexpr int kMappedHandles = kMostGpus;
  static constexpr int kResources = kMostGpus + 1;

  struct File;
  struct Share;
  class Guard;

  ComputeNode(File* file, int lock_fd, int share) : file_(file), lock_fd_(lock_fd), share_(share) {}

  // By a descriptor of its own; nullptr if `path` is no longer that file.
  static File* Map(const std::string& path, uint64_t inode);
  // Sets up a file that nobody uses. Why a process with this setup cannot join; "" if it can.
  static std::string Agree(File& file, const Setup& setup, bool in_use);
  // The number of a share that nobody has; -1 if there is none.
  static int TakeShare(File& file, int lock_fd);
  Share& mine();
  // Drops the shares of processes that are gone. The caller holds the guard.
  void DropDead();
  // Of a resource, which is a GPU's memory by its number, or kMappedHandles.
  bool Take(int resource, int64_t amount);
  void GiveBack(int resource, int64_t amount);
  int64_t Left(int resource) const;

  File* const file_;
  // A descriptor of its own: a lock of the kernel's goes with the last reference to the open file, which a mapping is.
  int lock_fd_;
  const int share_;
  std::atomic<bool> left_{false};
};

// A process's part of the node's table of mapped handles.
class ComputeNodeMappedHandles final : public Quota {
 public:
  explicit ComputeNodeMappedHandles(ComputeNode& node) : Quota(0), node_(node) {}
  bool Take(int64_t count) override { return node_.TakeMappedHandles(count); }
  void GiveBack(int64_t count) override { node_.GiveBackMappedHandles(count); }
  int64_t taken() const override { return node_.mapped_handles(); }

 private:
  ComputeNode& node_;
};

}  // namespace frugal::sim
