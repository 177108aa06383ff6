#include "simulated_gpu/libraries/nccl_communicator.h"

#include <set>
#include <utility>

#include "simulated_gpu/libraries/nccl_gpu.h"

namespace frugal::sim::nccl {
namespace {

struct Problems {
  std::mutex mutex;
  // A program may keep the text that it was given, so each stays, once.
  std::set<std::string> texts{""};
  const std::string* last = &*texts.begin();

  static Problems& All() {
    static auto* problems = new Problems;
    return *problems;
  }
};

// Those that a program has handles of. Never destroyed: threads may use them until the process is gone.
struct Known {
  std::mutex mutex;
  std::map<const void*, std::shared_ptr<Communicator>> communicators;

  static Known& All() {
    static auto* known = new Known;
    return *known;
  }
};

}  // namespace

Result Explain(Result result, const std::string& problem) {
  Problems& problems = Problems::All();
  const std::lock_guard lock(problems.mutex);
  problems.last = &*problems.texts.insert(problem).first;
  return result;
}

const char* LastError() {
  Problems& problems = Problems::All();
  const std::lock_guard lock(problems.mutex);
  return problems.last->c_str();
}

Result Waiting::On(Exchange& exchange, uint32_t seen, const std::function<bool(int rank)>& needed,
                   std::chrono::milliseconds most) {
  const std::string own = std::to_string(exchange.rank());
  if (gone_ >= 0) {
    return Explain(kRemoteError, "rank " + std::to_string(gone_) + " of " + std::to_string(exchange.size()) +
                                     " has ended, and rank " + own + " waits for it");
  }
  exchange.Wait(seen, most);
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_ < kBetweenLooks) return kSuccess;
  looked_ = now;
  for (int rank = 0; rank < exchange.size() && gone_ < 0; ++rank) {
    if (rank != exchange.rank() && needed(rank) && exchange.IsGone(rank)) gone_ = rank;
  }
  if (now - began_ <= kMost) return kSuccess;
  return Explain(kRemoteError, "rank " + own + " has waited for others for too long");
}

std::shared_ptr<Communicator> Communicator::Join(const Place& place, const Config* config,
                                                 std::shared_ptr<Buffers> buffers) {
  std::string problem;
  std::unique_ptr<Exchange> exchange =
      Exchange::Join(place.name, place.rank, place.size, IdentityOf(place.gpu), &problem);
  if (exchange == nullptr) {
    (void)Explain(kSystemError, problem);
    return nullptr;
  }
  if (buffers == nullptr) {
    const ComputeCapability capability = ComputeCapabilityOf(place.gpu);
    buffers = std::make_shared<Buffers>(place.gpu, BufferSettings::For(capability.major, capability.minor, config));
  }
  std::shared_ptr<Communicator> made(new Communicator(place, std::move(exchange), std::move(buffers)));
  Known& known = Known::All();
  const std::lock_guard lock(known.mutex);
  known.communicators[made.get()] = made;
  return made;
}

std::shared_ptr<Communicator> Communicator::Of(const void* handle) {
  Known& known = Known::All();
  const std::lock_guard lock(known.mutex);
  const auto found = known.communicators.find(handle);
  return found == known.communicators.end() ? nullptr : found->second;
}

Result Communicator::WaitForEverybody() {
  Waiting waiting;
  while (!exchange_->HasEverybody()) {
    const uint32_t seen = exchange_->events();
    if (exchange_->HasEverybody()) break;
    if (has_ended_) return Explain(kInternalError, "the communicator was aborted");
    const Result result = waiting.On(*exchange_, seen, [](int) { return true; });
    if (result != kSuccess) return result;
  }
  const int other = exchange_->RankWithSameGpu();
  if (other < 0) return kSuccess;
  return Explain(kInvalidUsage, "Duplicate GPU detected : rank " + std::to_string(rank()) + " and rank " +
                                    std::to_string(other) + " both on the same CUDA device");
}

void Communicator::End() {
  has_ended_ = true;
  exchange_->Wake();
  Known& known = Known::All();
  std::shared_ptr<Communicator> last;  // Goes after the lock.
  const std::lock_guard lock(known.mutex);
  const auto found = known.communicators.find(this);
  if (found == known.communicators.end()) return;
  last = std::move(found->second);
  known.communicators.erase(found);
}

std::string Communicator::NextName() { return place_.name + "-" + std::to_string(++children_); }

int Communicator::AddOperator(double factor) {
  const std::lock_guard lock(mutex_);
  factors_[next_operator_] = factor;
  return next_operator_++;
}

void Communicator::RemoveOperator(int op) {
  const std::lock_guard lock(mutex_);
  factors_.erase(op);
}

std::optional<Reduction> Communicator::ReductionOf(int op, int type) const {
  if (op >= 0 && op < kFirstOwnOperator) return Reduction{op, type, 1};
  const std::lock_guard lock(mutex_);
  const auto found = factors_.find(op);
  if (found == factors_.end()) return std::nullopt;
  return Reduction{kSum, type, found->second};
}

}  // namespace frugal::sim::nccl
