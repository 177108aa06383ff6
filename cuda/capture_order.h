// What is captured of streams, and what comes before what in it.

#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "allocator/port/device.h"
#include "cuda/driver_api.h"

namespace frugal {

// The order is that of the graph's ordinary edges, along which a node begins when the one before it has ended. Nothing
// is put into the graph, as PyTorch's own allocator (of 2.11) puts nothing there: a node that the program does not
// know of would be work that it has not joined.
//
// Thread-safety: any thread, as far as CUDA allows it: not while another puts work into the same capture.
class CaptureOrder {
 public:
  // `api`: that of the process.
  explicit CaptureOrder(const DriverApi& api) : api_(api) {}
  CaptureOrder(const CaptureOrder&) = delete;
  CaptureOrder& operator=(const CaptureOrder&) = delete;

  // Whether anybody wants to know, which at first nobody does. Forgets what was known.
  void SetWanted(bool wanted);
  bool is_wanted() const { return wanted_.load(std::memory_order_relaxed); }

  // As Device::MarkInCapture and Device::BehindInCapture. kUnavailable also if the driver is older than CUDA 12.3, or
  // does not say. REQUIRES: the stream's context is the thread's.
  absl::StatusOr<std::vector<CapturePoint>> Mark(CUstream stream) const;
  std::vector<CapturePoint> Behind(CUstream waiter, const std::vector<CapturePoint>& points);

 private:
  // Of one stream: what its next node will come after.
  struct Last {
    uint64_t capture = 0;
    std::vector<CUgraphNode> nodes;
  };
  // The same with all that comes before.
  struct Known {
    Last last;
    absl::flat_hash_set<CUgraphNode> before;
  };

  absl::StatusOr<Last> Ask(CUstream stream) const;
  // What the node comes after, by ordinary edges alone.
  std::vector<CUgraphNode> Before(CUgraphNode node) const;
  // Adds the nodes and what is before them; what is known is not looked at again. Whether that led to all of what was
  // last, so that what is known is before the nodes, too.
  bool Extend(Known& known, const std::vector<CUgraphNode>& nodes) const;

  const DriverApi& api_;
  std::atomic<bool> wanted_{false};
  absl::Mutex mutex_;
  // By the stream that asked. A capture has thousands of nodes, and asks as it allocates.
  absl::flat_hash_map<CUstream, Known> known_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace frugal
