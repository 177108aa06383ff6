#include "cuda/simulated/libraries/nccl_group.h"

#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "cuda/simulated/libraries/nccl_error.h"
#include "cuda/simulated/libraries/nccl_gpu.h"
#include "cuda/simulated/libraries/nccl_waiting.h"

namespace frugal::sim::nccl {
namespace {

// Where several exchanges may bring something new, and only one can be waited for.
constexpr std::chrono::milliseconds kBetweenExchanges{1};

struct Running {
  std::shared_ptr<Communicator> communicator;
  std::unique_ptr<Transfer> transfer;
};

// Advances the first of each lane; whether anything moved. Stops at one that fails.
bool AdvanceAll(const std::vector<Running>& running) {
  std::set<Transfer::Lane> busy;
  bool moved = false;
  for (const Running& one : running) {
    if (!busy.insert(one.transfer->lane()).second) continue;
    moved |= one.transfer->Advance();
    if (one.transfer->result() != kSuccess) return moved;
    if (one.transfer->IsDone()) busy.erase(one.transfer->lane());
  }
  return moved;
}

Result Failure(const std::vector<Running>& running) {
  for (const Running& one : running) {
    if (one.transfer->result() != kSuccess) return Explain(one.transfer->result(), one.transfer->problem());
    if (one.communicator->has_ended()) return Explain(kInternalError, "the communicator was aborted");
  }
  return kSuccess;
}

Result Run(std::vector<Running> running) {
  Waiting waiting;
  while (true) {
    Exchange& exchange = running.front().communicator->exchange();
    const uint32_t seen = exchange.events();
    const bool moved = AdvanceAll(running);
    if (const Result failure = Failure(running); failure != kSuccess) return failure;
    std::erase_if(running, [](const Running& one) { return one.transfer->IsDone(); });
    if (running.empty()) return kSuccess;
    if (moved) {
      waiting.StartAnew();
      continue;
    }
    bool is_one = true;
    for (const Running& one : running) is_one &= &one.communicator->exchange() == &exchange;
    const auto needed = [&](int rank) {
      for (const Running& one : running) {
        if (&one.communicator->exchange() == &exchange && one.transfer->WaitsFor(rank)) return true;
      }
      return false;
    };
    const Result result = waiting.On(exchange, seen, needed, is_one ? Waiting::kBetweenLooks : kBetweenExchanges);
    if (result != kSuccess) return result;
  }
}

Result OutOfMemory() { return Explain(kUnhandledCudaError, "Cuda failure 2 'out of memory'"); }

Result Connect(const Call& call, Communicator& communicator) {
  if (communicator.size() == 1) return kSuccess;
  Buffers& buffers = *communicator.buffers();
  switch (call.kind) {
    case Call::Kind::kSend:
      return call.peer == communicator.rank() || buffers.ConnectToSendTo(call.peer) ? kSuccess : OutOfMemory();
    case Call::Kind::kReceive:
      return call.peer == communicator.rank() || buffers.ConnectToReceiveFrom(call.peer) ? kSuccess : OutOfMemory();
    case Call::Kind::kAllToAll:
    case Call::Kind::kGather:
    case Call::Kind::kScatter:
      for (int rank = 0; rank < communicator.size(); ++rank) {
        if (rank == communicator.rank()) continue;
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
    DeclareAccess(call.stream, call.send, call.BytesSent(rank, size), /*writes=*/false, call.name());
    DeclareAccess(call.stream, call.receive, call.BytesReceived(rank, size), /*writes=*/true, call.name());
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

Result MoveData(const std::vector<Call>& calls) {
  std::vector<Running> running;
  // In the order of their addresses, so that two threads do not wait for each other.
  std::map<Communicator*, std::unique_lock<std::mutex>> locks;
  for (const Call& call : calls) {
    std::shared_ptr<Communicator> communicator = call.communicator.lock();
    if (communicator == nullptr) return Explain(kInvalidUsage, "the communicator was destroyed");
    locks.try_emplace(communicator.get());
    std::unique_ptr<Transfer> transfer = call.MakeTransfer(communicator->exchange());
    running.push_back({std::move(communicator), std::move(transfer)});
  }
  for (auto& [communicator, lock] : locks) lock = std::unique_lock(communicator->transfers());
  const std::vector<std::shared_ptr<Communicator>> kept = [&] {
    std::vector<std::shared_ptr<Communicator>> all;
    for (const Running& one : running) all.push_back(one.communicator);
    return all;
  }();
  const Result result = Run(std::move(running));
  if (result != kSuccess) {
    for (const auto& communicator : kept) communicator->set_state(result);
  }
  locks.clear();
  return result;
}

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
