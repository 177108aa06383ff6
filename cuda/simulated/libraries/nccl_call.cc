#include "cuda/simulated/libraries/nccl_call.h"

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

#include "cuda/simulated/libraries/nccl_exchange.h"

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

// A call that goes on step by step, and never waits: a thread that has several takes turns. A rank that gives posts its
// parts one after the other, each in pieces of a message; one that has nothing to give posts an empty message, so that
// others see what it calls. A rank that takes does so round by round: the next piece of its part from each rank.
class Transfer {
 public:
  // Transfers of one lane go one after the other, in the order of their calls.
  using Lane = std::pair<const Exchange*, int>;

  Transfer(const Call& call, std::shared_ptr<Communicator> communicator);

  // Does what can be done without another rank; whether that was anything.
  bool Advance();
  bool IsDone() const { return has_begun_ && posted_ == messages_ && round_ == rounds_; }
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
    bool is_taken = false;         // In this round.
    std::vector<char> piece = {};  // To be reduced.
  };

  Exchange& exchange() const { return communicator_->exchange(); }
  Track track() const { return call_.IsOfPair() ? Track::kOfPair : Track::kOfAll; }
  // All that a rank posts.
  uint64_t MessagesOf(int rank) const {
    return call_.Gives(rank) ? (call_.GivesParts() ? exchange().size() : 1) * pieces_ : 1;
  }
  // The first message of what `reader` takes.
  uint64_t MessageFor(int reader) const { return call_.GivesParts() ? reader * pieces_ : 0; }
  size_t SizeOfPiece(uint64_t piece) const {
    return std::min(Exchange::kPiece, call_.bytes() - piece * Exchange::kPiece);
  }
  Exchange::Label LabelOf(int rank) const {
    // Both of a pair call it by one name.
    const Call::Kind kind = call_.IsOfPair() ? Call::Kind::kSend : call_.kind;
    return {static_cast<uint64_t>(kind), call_.IsOfPair() || call_.Gives(rank) ? call_.bytes() : 0};
  }

  // Passes over others' messages that come before those which this rank takes, or after them.
  void SkipOthersParts(bool after);
  bool PostNext();
  bool TakeRound();
  // What it gives for this round.
  bool TakeFrom(Source& source);
  // Whether the step was made; fails with one that cannot be.
  bool Check(Exchange::Step step, int rank, const Exchange::Label& label);

  const Call call_;
  const std::shared_ptr<Communicator> communicator_;
  const uint64_t pieces_;  // Of a part.
  uint64_t messages_ = 0;
  uint64_t posted_ = 0;
  uint64_t rounds_ = 0;
  uint64_t round_ = 0;
  std::vector<Source> sources_;  // In the order of ranks.
  bool has_begun_ = false;
  Result result_ = kSuccess;
  std::string problem_;
};

Transfer::Transfer(const Call& call, std::shared_ptr<Communicator> communicator)
    : call_(call),
      communicator_(std::move(communicator)),
      pieces_(std::max<uint64_t>(1, (call.bytes() + Exchange::kPiece - 1) / Exchange::kPiece)) {
  const int own = exchange().rank();
  if (call_.IsOfPair()) {
    if (call_.kind == Call::Kind::kSend) messages_ = pieces_;
    if (call_.kind == Call::Kind::kReceive) sources_.push_back({.rank = call_.peer});
  } else {
    if (exchange().size() > 1) messages_ = MessagesOf(own);
    for (int rank = 0; rank < exchange().size() && call_.Takes(own); ++rank) {
      if (call_.Gives(rank)) sources_.push_back({.rank = rank});
    }
  }
  rounds_ = sources_.empty() ? 0 : pieces_;
}

bool Transfer::Advance() {
  if (result_ != kSuccess || IsDone()) return false;
  if (!has_begun_) SkipOthersParts(/*after=*/false);
  bool moved = !has_begun_;
  has_begun_ = true;
  while (posted_ < messages_ && PostNext()) moved = true;
  while (round_ < rounds_ && result_ == kSuccess && TakeRound()) moved = true;
  return moved;
}

void Transfer::SkipOthersParts(bool after) {
  const int own = exchange().rank();
  for (int rank = 0; rank < exchange().size() && !call_.IsOfPair(); ++rank) {
    if (rank == own) continue;
    const bool is_source = call_.Takes(own) && call_.Gives(rank);
    const uint64_t before = is_source ? MessageFor(own) : MessagesOf(rank);
    const uint64_t behind = is_source ? MessagesOf(rank) - before - pieces_ : 0;
    exchange().Skip(rank, track(), after ? behind : before);
  }
}

bool Transfer::PostNext() {
  const int own = exchange().rank();
  const int reader = call_.IsOfPair() ? call_.peer : Exchange::kEverybody;
  const uint64_t piece = posted_ % pieces_;
  const size_t from = posted_ / pieces_ * call_.bytes() + piece * Exchange::kPiece;
  const size_t size = call_.Gives(own) ? SizeOfPiece(piece) : 0;
  const char* const data = static_cast<const char*>(call_.send) + from;
  std::vector<char> scaled;
  if (call_.Reduces() && call_.reduction.factor != 1) {
    scaled.assign(data, data + size);
    Scale(call_.reduction, scaled.data(), size / SizeOf(call_.type));
  }
  const Exchange::Label label = LabelOf(own);
  const Step step = exchange().Post(reader, label, scaled.empty() ? data : scaled.data(), size);
  if (!Check(step, own, label)) return false;
  ++posted_;
  return true;
}

bool Transfer::TakeRound() {
  // Where the result comes over what this rank gives, that has been posted.
  const int own = exchange().rank();
  if (messages_ > 0 && call_.Gives(own) && posted_ <= MessageFor(own) + round_) return false;
  bool moved = false;
  bool has_all = true;
  for (Source& source : sources_) {
    if (source.is_taken) continue;
    source.is_taken = TakeFrom(source);
    if (result_ != kSuccess) return moved;
    moved |= source.is_taken;
    has_all &= source.is_taken;
  }
  if (!has_all) return moved;
  if (call_.Reduces()) {
    std::vector<const void*> pieces;
    for (const Source& source : sources_) pieces.push_back(source.piece.data());
    char* const target = static_cast<char*>(call_.receive) + round_ * Exchange::kPiece;
    Reduce(call_.reduction, pieces, target, SizeOfPiece(round_) / SizeOf(call_.type));
  }
  for (Source& source : sources_) source.is_taken = false;
  if (++round_ == rounds_) SkipOthersParts(/*after=*/true);
  return true;
}

bool Transfer::TakeFrom(Source& source) {
  const int own = exchange().rank();
  const size_t size = SizeOfPiece(round_);
  const size_t offset = round_ * Exchange::kPiece;
  source.piece.resize(call_.Reduces() ? size : 0);
  const size_t place = call_.TakesParts() ? static_cast<size_t>(source.rank) * call_.bytes() : 0;
  char* const target = call_.Reduces() ? source.piece.data() : static_cast<char*>(call_.receive) + place + offset;
  if (source.rank == own && !call_.IsOfPair()) {
    const size_t from = call_.GivesParts() ? static_cast<size_t>(own) * call_.bytes() : 0;
    if (size > 0) std::memmove(target, static_cast<const char*>(call_.send) + from + offset, size);
    if (call_.Reduces()) Scale(call_.reduction, target, size / SizeOf(call_.type));
    return true;
  }
  Exchange::Label label = LabelOf(source.rank);
  const Step step = exchange().Take(source.rank, track(), &label, target, size);
  return Check(step, source.rank, label);
}

bool Transfer::Check(Step step, int rank, const Exchange::Label& label) {
  const std::string own = "rank " + std::to_string(exchange().rank());
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
  if (posted_ < messages_ && is_reader && exchange().IsFull(rank, track())) return true;
  if (round_ == rounds_) return false;
  return std::any_of(sources_.begin(), sources_.end(),
                     [&](const Source& source) { return source.rank == rank && !source.is_taken; });
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

}  // namespace frugal::sim::nccl
