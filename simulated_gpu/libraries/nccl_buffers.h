// The GPU memory that a communicator takes for its connections to other GPUs: a model, of what others have reported.

#pragma once

#include <cstdint>
#include <mutex>
#include <set>
#include <utility>

#include "simulated_gpu/libraries/nccl_types.h"

namespace frugal::sim::nccl {

// How many connections there are to a peer, and how large each is.
//
// A connection has a buffer on the receiver's GPU for each of NCCL's three protocols, and on the sender's its state;
// both are allocated in whole pieces of 2 MiB. NCCL's own log of allocations has the sums: 10 MiB and 2 MiB
// (NVIDIA/nccl #1685, H100).
struct BufferSettings {
  static constexpr int64_t kPiece = int64_t{2} << 20;

  int64_t simple = int64_t{4} << 20;         // NCCL_BUFFSIZE
  int64_t low_latency = int64_t{512} << 10;  // NCCL_LL_BUFFSIZE
  int64_t low_latency_128 = 4'915'200;       // NCCL_LL128_BUFFSIZE
  int channels = 0;                          // Of collectives, each a ring through all GPUs.
  int channels_of_peer = 0;                  // Of sending and receiving.

  // For a GPU of this compute capability: those that NVIDIA builds into servers with NVLink have 24 and 32 channels,
  // others 2 and 2. The environment and `config`, which may be null, change that as NCCL documents it.
  static BufferSettings For(int major, int minor, const Config* config);

  // What a connection takes of the receiver's GPU, and of the sender's.
  int64_t receiving() const { return (simple + low_latency + low_latency_128 + kPiece - 1) / kPiece * kPiece; }
  int64_t sending() const { return kPiece; }
};

// What one communicator has taken, or several that share it. As NCCL does, it connects when it is first needed. Gives
// back when it goes. Thread-safe.
class Buffers {
 public:
  // The rings of collectives of more than one rank, or one direction of a pair.
  enum class Connection { kRings, kSendTo, kReceiveFrom };

  Buffers(int gpu, const BufferSettings& settings) : gpu_(gpu), settings_(settings) {}
  ~Buffers();
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  // False if the GPU has no room for it. `peer` is the other one of a pair.
  bool Connect(Connection connection, int peer = 0);

  int64_t taken() const;

 private:
  const int gpu_;
  const BufferSettings settings_;
  mutable std::mutex mutex_;
  std::set<std::pair<Connection, int>> connected_;
  int64_t taken_ = 0;
};

}  // namespace frugal::sim::nccl
