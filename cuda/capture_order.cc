#include "cuda/capture_order.h"

#include <utility>

namespace frugal {

void CaptureOrder::SetWanted(bool wanted) {
  absl::MutexLock lock(&mutex_);
  known_.clear();
  wanted_.store(wanted, std::memory_order_relaxed);
}

absl::StatusOr<std::vector<CapturePoint>> CaptureOrder::Mark(CUstream stream) const {
  absl::StatusOr<Last> last = Ask(stream);
  if (!last.ok()) return last.status();
  // Nothing was captured of it yet.
  if (last->nodes.empty()) return std::vector{CapturePoint{last->capture}};
  std::vector<CapturePoint> points;
  for (CUgraphNode node : last->nodes) points.push_back({last->capture, reinterpret_cast<uint64_t>(node)});
  return points;
}

std::vector<CapturePoint> CaptureOrder::Behind(CUstream waiter, const std::vector<CapturePoint>& points) {
  absl::StatusOr<Last> last = Ask(waiter);
  if (!last.ok()) return {};
  absl::MutexLock lock(&mutex_);
  Known& known = known_[waiter];
  if (known.last.capture != last->capture) known = Known();
  if (!Extend(known, last->nodes)) {
    // The program has set by hand what comes next.
    known = Known();
    Extend(known, last->nodes);
  }
  known.last = *std::move(last);
  std::vector<CapturePoint> behind;
  for (const CapturePoint point : points) {
    if (point.capture != known.last.capture) continue;
    if (point.node == 0 || known.before.contains(reinterpret_cast<CUgraphNode>(point.node))) behind.push_back(point);
  }
  return behind;
}

absl::StatusOr<CaptureOrder::Last> CaptureOrder::Ask(CUstream stream) const {
  if (!is_wanted()) return absl::UnavailableError("nobody wants to know");
  if (api_.StreamGetCaptureInfo == nullptr || api_.GraphNodeGetDependencies == nullptr) {
    return absl::UnavailableError("the driver is older than CUDA 12.3");
  }
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  Last last;
  const CUgraphNode* nodes = nullptr;
  size_t count = 0;
  // It fails where the next node is not to wait for the end of these, since nobody takes what edges say beyond that.
  const CUresult result =
      api_.StreamGetCaptureInfo(stream, &status, &last.capture, nullptr, &nodes, /*edgeData_out=*/nullptr, &count);
  if (result != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_ACTIVE) {
    return absl::UnavailableError("the stream is not being captured, or the driver does not say what was");
  }
  last.nodes.assign(nodes, nodes + count);
  return last;
}

std::vector<CUgraphNode> CaptureOrder::Before(CUgraphNode node) const {
  // Most have one or two.
  constexpr size_t kFew = 8;
  std::vector<CUgraphNode> before(kFew);
  size_t count = before.size();
  // As above it fails where an edge says more.
  CUresult result = api_.GraphNodeGetDependencies(node, before.data(), nullptr, &count);
  if (result == CUDA_SUCCESS && count == kFew) {
    result = api_.GraphNodeGetDependencies(node, nullptr, nullptr, &count);
    before.resize(count);
    if (result == CUDA_SUCCESS) result = api_.GraphNodeGetDependencies(node, before.data(), nullptr, &count);
  }
  before.resize(result == CUDA_SUCCESS ? count : 0);
  return before;
}

bool CaptureOrder::Extend(Known& known, const std::vector<CUgraphNode>& nodes) const {
  absl::flat_hash_set<CUgraphNode> not_met(known.last.nodes.begin(), known.last.nodes.end());
  std::vector<CUgraphNode> open = nodes;
  while (!open.empty()) {
    CUgraphNode const node = open.back();
    open.pop_back();
    not_met.erase(node);
    if (!known.before.insert(node).second) continue;
    const std::vector<CUgraphNode> before = Before(node);
    open.insert(open.end(), before.begin(), before.end());
  }
  return not_met.empty();
}

}  // namespace frugal
