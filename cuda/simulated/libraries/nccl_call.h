// A call of NCCL's that communicates, as a program made it.

#ifndef FRUGAL_CUDA_SIMULATED_LIBRARIES_NCCL_CALL_H_
#define FRUGAL_CUDA_SIMULATED_LIBRARIES_NCCL_CALL_H_

#include <cstddef>
#include <memory>

#include "cuda/simulated/libraries/nccl_communicator.h"
#include "cuda/simulated/libraries/nccl_reduction.h"
#include "cuda/simulated/libraries/nccl_transfer.h"
#include "cuda/simulated/libraries/nccl_types.h"
#include "cuda/simulated/libraries/stand_in.h"

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
  Reduction reduction;
  int peer = 0;  // The root, or the other one of a pair.
  // It may have been destroyed when a graph is replayed.
  std::weak_ptr<Communicator> communicator;
  Stream stream = nullptr;

  const char* name() const;
  bool IsOfPair() const { return kind == Kind::kSend || kind == Kind::kReceive; }
  // Of `rank`'s buffers among `size` ranks; 0: it has none.
  size_t BytesSent(int rank, int size) const;
  size_t BytesReceived(int rank, int size) const;
  bool IsSmall(int size) const;
  // Ready to begin.
  std::unique_ptr<Transfer> MakeTransfer(Exchange& exchange) const;

 private:
  size_t bytes() const { return count * SizeOf(type); }
  CollectiveTransfer::Section SectionOf(int writer, int reader, int size) const;
};

}  // namespace frugal::sim::nccl

#endif  // FRUGAL_CUDA_SIMULATED_LIBRARIES_NCCL_CALL_H_
