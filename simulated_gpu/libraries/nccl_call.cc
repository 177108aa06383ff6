#include "simulated_gpu/libraries/nccl_call.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "simulated_gpu/libraries/nccl_exchange.h"
#include "simulated_gpu/libraries/nccl_gpu.h"

namespace frugal::sim::nccl {
namespace {

using Step = Exchange::Step;
using Track = Exchange::Track;

struct Shape {
  const char* name = "";
  bool reduces = false;
  // Only the root does.
  bool one_gives = false;
  bool one_takes = false;
  // One part for each rank, of the buffer that is given, or taken into.
  bool gives_parts = false;
  bool takes_parts = false;
};

// By Call::Kind.
constexpr Shape kShapes[] = {
    {.name = "ncclAllReduce", .reduces = true},
    {.name = "ncclReduce", .reduces = true, .one_takes = true},
    {.name = "ncclBroadcast", .one_gives = true},
    {.name = "ncclAllGather", .takes_parts = true},
    {.name = "ncclReduceScatter", .reduces = true, .gives_parts = true},
    {.name = "ncclAlltoAll", .gives_parts = true, .takes_parts = true},
    {.name = "ncclGather", .one_takes = true, .takes_parts = true},
    {.name = "ncclScatter", .one_gives = true, .gives_parts = true},
    {.name = "ncclSend"},
    {.name = "ncclRecv"},
};

const Shape& ShapeOf(Call::Kind kind) { return kShapes[static_cast<size_t>(kind)]; }

// A call that goes on step by step, and never waits: a thread that has several takes turns. Each rank's part is cut
// into pieces of a message. In a collective all ranks go through the same rounds, one for each piece of each part. A
// rank that gives posts a message in each; one that does not posts an empty one for all of them, so that others see
// what it calls. In the rounds of its own part a rank reads the message of each rank that gives, and in the first
// anyway its label.
class Transfer {
 public:
  // Transfers of one lane go one after the other, in the order of their calls.
  using Lane = std::pair<const Exchange*, int>;

  Transfer(const Call& call, std::shared_ptr<Communicator> communicator);

  // Does what can be done without another rank; whether that was anything.
  bool Advance();
  bool IsDone() const { return posted_ == posts_ && round_ == rounds_; }
  // It cannot go on before that rank does something.
  bool WaitsFor(int rank) const;
  Lane lane() const {
    const int of_pair = 1 + 2 * call_.peer + (call_.kind == Call::Kind::kReceive ? 1 : 0);
    return {&exchange(), call_.IsOfPair() ? of_pair : 0};
  }
  Communicator& communicator() const { return *communicator_; }

  // Not kSuccess: it has failed, and `problem` says why.
  Result result() const { return result_; }
  const std::string& problem() const { return problem_; }

 private:
  struct Source {
    int rank = 0;
    bool is_read = false;          // In this round.
    std::vector<char> piece = {};  // To be reduced.
  };

  Exchange& exchange() const { return communicator_->exchange(); }
  Track track() const { return call_.IsOfPair() ? Track::kOfPair : Track::kOfAll; }
  size_t OffsetOf(uint64_t round) const { return round % pieces_ * Exchange::kPiece; }
  size_t SizeOf(uint64_t round) const { return std::min(Exchange::kPiece, call_.bytes() - OffsetOf(round)); }
  // The call's type is known to be one when the call is made.
  size_t ElementsIn(size_t size) const { return size / std::max<size_t>(nccl::SizeOf(call_.type), 1); }
  // In this round it reads from others.
  bool Reads() const { return round_ == 0 || IsForThisRank(); }
  // In this round this rank's part is given.
  bool IsForThisRank() const { return !call_.GivesParts() || round_ / pieces_ == static_cast<uint64_t>(own_); }
  // What this rank gives in that round.
  const char* GivenIn(uint64_t round) const {
    const size_t part = call_.GivesParts() ? round / pieces_ * call_.bytes() : 0;
    return static_cast<const char*>(call_.send) + part + OffsetOf(round);
  }
  Exchange::Label LabelOf(int rank) const {
    // Both of a pair call it by one name.
    const Call::Kind kind = call_.IsOfPair() ? Call::Kind::kSend : call_.kind;
    return {static_cast<uint64_t>(kind), call_.IsOfPair() || call_.Gives(rank) ? call_.bytes() : 0};
  }

  bool PostNext();
  // Whether anything was read, or the round is over.
  bool ReadRound();
  // What it gives in this round.
  bool ReadFrom(Source& source);
  // Whether the step was made; fails with one that cannot be.
  bool Check(Exchange::Step step, int rank, const Exchange::Label& label);

  const Call call_;
  const std::shared_ptr<Communicator> communicator_;
  const int own_;
  const uint64_t pieces_;  // Of a part.
  uint64_t posts_ = 0;
  uint64_t posted_ = 0;
  uint64_t rounds_ = 0;
  uint64_t round_ = 0;
  std::vector<Source> sources_;  // In the order of ranks.
  Result result_ = kSuccess;
  std::string problem_;
};

Transfer::Transfer(const Call& call, std::shared_ptr<Communicator> communicator)
    : call_(call),
      communicator_(std::move(communicator)),
      own_(communicator_->rank()),
      pieces_(std::max<uint64_t>(1, (call.bytes() + Exchange::kPiece - 1) / Exchange::kPiece)) {
  if (call_.IsOfPair()) {
    (call_.kind == Call::Kind::kSend ? posts_ : rounds_) = pieces_;
    if (call_.kind == Call::Kind::kReceive) sources_.push_back({.rank = call_.peer});
    return;
  }
  rounds_ = pieces_ * static_cast<uint64_t>(call_.GivesParts() ? exchange().size() : 1);
  if (exchange().size() > 1) posts_ = rounds_;
  for (int rank = 0; rank < exchange().size() && call_.Takes(own_); ++rank) {
    if (call_.Gives(rank)) sources_.push_back({.rank = rank});
  }
}

bool Transfer::Advance() {
  bool moved = false;
  while (posted_ < posts_ && result_ == kSuccess && PostNext()) moved = true;
  while (round_ < rounds_ && result_ == kSuccess && ReadRound()) moved = true;
  return moved;
}

bool Transfer::PostNext() {
  const size_t size = call_.Gives(own_) ? SizeOf(posted_) : 0;
  const char* data = GivenIn(posted_);
  std::vector<char> scaled;
  if (call_.Reduces() && call_.reduction.factor != 1) {
    scaled.assign(data, data + size);
    Scale(call_.reduction, scaled.data(), ElementsIn(size));
    data = scaled.data();
  }
  const Exchange::Label label = LabelOf(own_);
  const uint64_t messages = call_.IsOfPair() || call_.Gives(own_) ? 1 : posts_;
  if (!Check(exchange().Post(track(), call_.peer, label, data, size, messages), own_, label)) return false;
  posted_ += messages;
  return true;
}

bool Transfer::ReadRound() {
  // Where the result comes over what this rank gives, that has been posted.
  if (posts_ > 0 && posted_ <= round_) return false;
  bool moved = false;
  bool has_all = true;
  for (Source& source : sources_) {
    if (source.is_read || !Reads()) continue;
    source.is_read = ReadFrom(source);
    if (result_ != kSuccess) return moved;
    moved |= source.is_read;
    has_all &= source.is_read;
  }
  if (!has_all) return moved;
  if (call_.Reduces() && IsForThisRank() && !sources_.empty()) {
    std::vector<const void*> pieces;
    for (const Source& source : sources_) pieces.push_back(source.piece.data());
    char* const target = static_cast<char*>(call_.receive) + OffsetOf(round_);
    Reduce(call_.reduction, pieces, target, ElementsIn(SizeOf(round_)));
  }
  for (Source& source : sources_) source.is_read = false;
  exchange().Pass(track(), call_.peer);
  ++round_;
  return true;
}

bool Transfer::ReadFrom(Source& source) {
  const size_t size = IsForThisRank() ? SizeOf(round_) : 0;
  source.piece.resize(call_.Reduces() ? size : 0);
  const size_t place = call_.TakesParts() ? static_cast<size_t>(source.rank) * call_.bytes() : 0;
  char* const target =
      call_.Reduces() ? source.piece.data() : static_cast<char*>(call_.receive) + place + OffsetOf(round_);
  if (source.rank == own_ && !call_.IsOfPair()) {
    if (size > 0) std::memmove(target, GivenIn(round_), size);
    if (call_.Reduces()) Scale(call_.reduction, target, ElementsIn(size));
    return true;
  }
  Exchange::Label label = LabelOf(source.rank);
  const Step step = exchange().Read(track(), source.rank, &label, target, size);
  return Check(step, source.rank, label);
}

bool Transfer::Check(Step step, int rank, const Exchange::Label& label) {
  const std::string own = "rank " + std::to_string(own_);
  const std::string other = "rank " + std::to_string(rank);
  if (step == Step::kRefusedBySystem) {
    result_ = kSystemError;
    problem_ = std::string("shared memory cannot be written or read: ") + std::strerror(errno);
  } else if (step == Step::kOtherLabel) {
    result_ = kInvalidUsage;
    problem_ = call_.IsOfPair()
                   ? other + " sends " + std::to_string(label.size) + " bytes and " + own + " receives " +
                         std::to_string(call_.bytes())
                   : other + " called another collective, or with other sizes, than " + own + " at this point";
  }
  return step == Step::kMade;
}

bool Transfer::WaitsFor(int rank) const {
  const bool is_reader = !call_.IsOfPair() || rank == call_.peer;
  if (posted_ < posts_ && is_reader && exchange().IsFull(track(), rank)) return true;
  if (round_ == rounds_ || !Reads()) return false;
  return std::any_of(sources_.begin(), sources_.end(),
                     [&](const Source& source) { return source.rank == rank && !source.is_read; });
}

// Where several exchanges may bring something new, and only one can be waited for.
constexpr std::chrono::milliseconds kBetweenExchanges{1};

// Advances the first of each lane; whether anything moved. Stops at one that fails.
bool AdvanceAll(std::list<Transfer>& running) {
  std::set<Transfer::Lane> busy;
  bool moved = false;
  for (Transfer& transfer : running) {
    if (!busy.insert(transfer.lane()).second) continue;
    moved |= transfer.Advance();
    if (transfer.result() != kSuccess) return moved;
    if (transfer.IsDone()) busy.erase(transfer.lane());
  }
  return moved;
}

Result Failure(const std::list<Transfer>& running) {
  for (const Transfer& transfer : running) {
    if (transfer.result() != kSuccess) return Explain(transfer.result(), transfer.problem());
    if (transfer.communicator().has_ended()) return Explain(kInternalError, "the communicator was aborted");
  }
  return kSuccess;
}

Result Run(std::list<Transfer>& running) {
  Waiting waiting;
  while (true) {
    Communicator& first = running.front().communicator();
    const uint32_t seen = first.exchange().events();
    const bool moved = AdvanceAll(running);
    if (const Result failure = Failure(running); failure != kSuccess) return failure;
    const bool is_one = std::all_of(running.begin(), running.end(),
                                    [&](const Transfer& transfer) { return &transfer.communicator() == &first; });
    std::erase_if(running, [](const Transfer& transfer) { return transfer.IsDone(); });
    if (running.empty()) return kSuccess;
    if (moved) {
      waiting.StartAnew();
      continue;
    }
    const auto needed = [&](int rank) {
      return std::any_of(running.begin(), running.end(), [&](const Transfer& transfer) {
        return &transfer.communicator() == &first && transfer.WaitsFor(rank);
      });
    };
    const auto most = is_one ? Waiting::kBetweenLooks : kBetweenExchanges;
    if (const Result result = waiting.On(first.exchange(), seen, needed, most); result != kSuccess) return result;
  }
}

}  // namespace

const char* Call::name() const { return ShapeOf(kind).name; }
bool Call::Reduces() const { return ShapeOf(kind).reduces; }
bool Call::Gives(int rank) const { return kind != Kind::kReceive && (!ShapeOf(kind).one_gives || rank == peer); }
bool Call::Takes(int rank) const { return kind != Kind::kSend && (!ShapeOf(kind).one_takes || rank == peer); }
bool Call::GivesParts() const { return ShapeOf(kind).gives_parts; }
bool Call::TakesParts() const { return ShapeOf(kind).takes_parts; }

size_t Call::BytesGiven(int rank, int size) const {
  if (!Gives(rank)) return 0;
  return GivesParts() ? static_cast<size_t>(size) * bytes() : bytes();
}

size_t Call::BytesTaken(int rank, int size) const {
  if (!Takes(rank)) return 0;
  return TakesParts() ? static_cast<size_t>(size) * bytes() : bytes();
}

bool Call::IsSmall(int size) const { return (GivesParts() ? static_cast<size_t>(size) : 1) * bytes() <= kMostMoved; }

Result MoveData(const std::vector<Call>& calls) {
  std::list<Transfer> running;
  // In the order of their addresses, so that two threads do not wait for each other.
  std::map<std::shared_ptr<Communicator>, std::unique_lock<std::mutex>> communicators;
  for (const Call& call : calls) {
    const std::shared_ptr<Communicator> communicator = call.communicator.lock();
    if (communicator == nullptr) return Explain(kInvalidUsage, "the communicator was destroyed");
    running.emplace_back(call, communicator);
    communicators.try_emplace(communicator);
  }
  for (auto& [communicator, lock] : communicators) lock = std::unique_lock(communicator->transfers());
  const Result result = Run(running);
  for (const auto& [communicator, lock] : communicators) {
    if (result != kSuccess) communicator->set_state(result);
  }
  return result;
}

// --- Groups.

namespace {

using Connection = Buffers::Connection;

// What the call needs of its communicator's buffers; false if the GPU has no room for them.
bool Connect(const Call& call, Communicator& communicator) {
  Buffers& buffers = *communicator.buffers();
  const int own = communicator.rank();
  if (communicator.size() == 1 || (call.IsOfPair() && call.peer == own)) return true;
  if (call.IsOfPair()) {
    return buffers.Connect(call.kind == Call::Kind::kSend ? Connection::kSendTo : Connection::kReceiveFrom, call.peer);
  }
  if (!call.IsAmongPairs()) return buffers.Connect(Connection::kRings);
  bool has_room = true;
  for (int rank = 0; rank < communicator.size() && has_room; ++rank) {
    has_room =
        rank == own || (buffers.Connect(Connection::kSendTo, rank) && buffers.Connect(Connection::kReceiveFrom, rank));
  }
  return has_room;
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
    if (!Connect(call, *communicator)) return Explain(kUnhandledCudaError, "Cuda failure 2 'out of memory'");
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

Result Group::End(bool runs) {
  if (depth_ == 0) return Explain(kInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--depth_ > 0) return kSuccess;
  const std::vector<std::shared_ptr<Communicator>> joining = std::exchange(joining_, {});
  const std::vector<Call> calls = std::exchange(calls_, {});
  if (!runs) return kSuccess;
  for (const std::shared_ptr<Communicator>& communicator : joining) {
    if (const Result result = communicator->WaitForEverybody(); result != kSuccess) return result;
  }
  return calls.empty() ? kSuccess : RunCalls(calls);
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
