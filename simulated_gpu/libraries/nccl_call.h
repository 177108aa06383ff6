// A call of NCCL's that communicates, as a program made it, how its data is moved, and calls that are made together.

#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "simulated_gpu/libraries/nccl_communicator.h"
#include "simulated_gpu/libraries/nccl_reduction.h"
#include "simulated_gpu/libraries/nccl_types.h"
#include "simulated_gpu/libraries/stand_in.h"

namespace frugal::sim::nccl {

struct Call {
  enum class Kind {
    kAllReduce,
    kReduce,
    kBroadcast,
    kAllGather,
    kReduceScatter,
    kAllToAll,
    kGather,
    kScatter,
    kSend,
    kReceive,
  };
  // Without all values, data is moved of which each rank gives so much at most: what programs decide by. Of more,
  // nothing is moved, and no rank waits for another.
  static constexpr size_t kMostMoved = 1 << 20;

  Kind kind = Kind::kAllReduce;
  const void* send = nullptr;
  void* receive = nullptr;
  size_t count = 0;  // As NCCL counts elements: of the smaller buffer.
  int type = 0;
  Stream stream = nullptr;
  int peer = 0;  // The root, or the other one of a pair.
  Reduction reduction = {};
  // It may have been destroyed when a graph is replayed.
  std::weak_ptr<Communicator> communicator = {};

  const char* name() const;
  bool IsOfPair() const { return kind == Kind::kSend || kind == Kind::kReceive; }
  // A collective that NCCL makes of sends and receives.
  bool IsAmongPairs() const { return kind == Kind::kAllToAll || kind == Kind::kGather || kind == Kind::kScatter; }
  bool Reduces() const;
  // This rank has data for others, or wants theirs.
  bool Gives(int rank) const;
  bool Takes(int rank) const;
  // The buffer that is given, or taken into, has one part for each rank.
  bool GivesParts() const;
  bool TakesParts() const;

  size_t bytes() const { return count * SizeOf(type); }  // Of one part.
  // Of `rank`'s buffers among `size` ranks; 0: it has none.
  size_t BytesGiven(int rank, int size) const;
  size_t BytesTaken(int rank, int size) const;
  bool IsSmall(int size) const;
};

// Moves the data of these calls, of this rank and others, in this thread: what each can do first, then what has to
// wait.
Result MoveData(const std::vector<Call>& calls);

// Calls that are made together: those of a thread between ncclGroupStart and ncclGroupEnd, or one alone.
class Group {
 public:
  static Group& OfThisThread();

  void Start() { ++depth_; }
  // Without `runs`, forgets what was put in.
  Result End(bool runs = true);

  // At once, or at the end of the outermost group.
  Result Add(Call call);
  Result Add(std::shared_ptr<Communicator> joining);

 private:
  int depth_ = 0;
  std::vector<Call> calls_;
  std::vector<std::shared_ptr<Communicator>> joining_;
};

}  // namespace frugal::sim::nccl
