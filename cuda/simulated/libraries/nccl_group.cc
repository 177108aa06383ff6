#include "cuda/simulated/libraries/nccl_group.h"

#include <set>
#include <utility>

#include "cuda/simulated/libraries/nccl_gpu.h"

namespace frugal::sim::nccl {
namespace {

Result OutOfMemory() { return Explain(kUnhandledCudaError, "Cuda failure 2 'out of memory'"); }

Result Connect(const Call& call, Communicator& communicator) {
  Buffers& buffers = *communicator.buffers();
  const int own = communicator.rank();
  if (communicator.size() == 1 || (call.IsOfPair() && call.peer == own)) return kSuccess;
  switch (call.kind) {
    case Call::Kind::kSend:
      return buffers.ConnectToSendTo(call.peer) ? kSuccess : OutOfMemory();
    case Call::Kind::kReceive:
      return buffers.ConnectToReceiveFrom(call.peer) ? kSuccess : OutOfMemory();
    case Call::Kind::kAllToAll:
    case Call::Kind::kGather:
    case Call::Kind::kScatter:
      for (int rank = 0; rank < communicator.size(); ++rank) {
        if (rank == own) continue;
        if (!buffers.ConnectToSendTo(rank) || !buffers.ConnectToReceiveFrom(rank)) return OutOfMemory();
      }
      return kSuccess;
    default:
      return buffers.ConnectRings() ? kSuccess : OutOfMemory();
  }
}

// One kernel for all of a communicator's calls on a stream, and what they read and write.
Result Launch(const std::vector<Call>& calls) {
  std::set<std::pair<const Communicator*, Stream>> launched;
  for (const Call& call : calls) {
    const std::shared_ptr<Communicator> communicator = call.communicator.lock();
    const OnGpu current(communicator->gpu());
    if (launched.emplace(communicator.get(), call.stream).second && !LaunchKernel(call.stream)) {
      return Explain(kUnhandledCudaError, "the simulated GPU refused a kernel of NCCL's");
    }
    const int rank = communicator->rank();
    const int size = communicator->size();
    DeclareAccess(call.stream, call.send, call.BytesGiven(rank, size), /*writes=*/false, call.name());
    DeclareAccess(call.stream, call.receive, call.BytesTaken(rank, size), /*writes=*/true, call.name());
  }
  return kSuccess;
}

Result RunCalls(const std::vector<Call>& calls) {
  std::vector<Call> moved;
  for (const Call& call : calls) {
    const std::shared_ptr<Communicator> communicator = call.communicator.lock();
    if (const Result result = Connect(call, *communicator); result != kSuccess) return result;
    if (HasBacking() && (HasAllValues() || call.IsSmall(communicator->size()))) moved.push_back(call);
  }
  if (const Result result = Launch(calls); result != kSuccess) return result;
  if (moved.empty()) return kSuccess;
  const Stream stream = moved.front().stream;
  const OnGpu current(moved.front().communicator.lock()->gpu());
  if (!WorkIsLate() && !IsCapturing(stream)) return MoveData(moved);
  // Of several streams, in the order of the first.
  if (CallOnStream(stream, [moved] { (void)MoveData(moved); })) return kSuccess;
  return Explain(kUnhandledCudaError, "the simulated GPU refused a call of the host's");
}

}  // namespace

Group& Group::OfThisThread() {
  thread_local Group group;
  return group;
}

Result Group::End() {
  if (depth_ == 0) return Explain(kInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--depth_ > 0) return kSuccess;
  const std::vector<std::shared_ptr<Communicator>> joining = std::exchange(joining_, {});
  const std::vector<Call> calls = std::exchange(calls_, {});
  for (const std::shared_ptr<Communicator>& communicator : joining) {
    if (const Result result = communicator->WaitForEverybody(); result != kSuccess) return result;
  }
  return calls.empty() ? kSuccess : RunCalls(calls);
}

Result Group::EndWithoutRunning() {
  if (depth_ == 0) return Explain(kInvalidUsage, "ncclGroupSimulateEnd without ncclGroupStart");
  if (--depth_ > 0) return kSuccess;
  calls_.clear();
  joining_.clear();
  return kSuccess;
}

Result Group::Add(Call call) {
  if (depth_ == 0) return RunCalls({std::move(call)});
  calls_.push_back(std::move(call));
  return kSuccess;
}

Result Group::Add(std::shared_ptr<Communicator> joining) {
  if (depth_ == 0) return joining->WaitForEverybody();
  joining_.push_back(std::move(joining));
  return kSuccess;
}

}  // namespace frugal::sim::nccl
