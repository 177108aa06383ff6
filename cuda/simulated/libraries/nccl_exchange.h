// What the ranks of one communicator exchange data through: a file in shared memory.

#ifndef FRUGAL_CUDA_SIMULATED_LIBRARIES_NCCL_EXCHANGE_H_
#define FRUGAL_CUDA_SIMULATED_LIBRARIES_NCCL_EXCHANGE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace frugal::sim::nccl {

// One rank's part in it. A rank writes to all others on its own track of the exchange, and to each of them on a track
// for that pair. A track is a stream of bytes that every reader reads at its own pace, through a ring of kRing bytes:
// whoever writes is ahead of the slowest reader by that at most. Nothing here waits but Wait().
//
// The file has no name any more once all ranks have joined, so that nothing is left of it however they end.
//
// Tracks are for one thread at a time; the rest is thread-safe.
class Exchange {
 public:
  static constexpr size_t kRing = size_t{16} << 20;
  static constexpr int kMostRanks = 1024;
  // In the place of a reader: all other ranks.
  static constexpr int kEverybody = -1;

  enum class Track { kOfAll, kOfPair };

  // A name that no other exchange has, and the file of that name.
  static std::string NewName();
  static std::string FileOf(const std::string& name);
  // Removes files of this user's whose ranks died before all had joined.
  static void RemoveAbandoned();

  // As `rank` of `size`, with the GPU that `gpu` names on this host; 0: it is not known. nullptr, and why in `problem`,
  // if the file cannot be had or another process is that rank. May return before the others have joined.
  static std::unique_ptr<Exchange> Join(const std::string& name, int rank, int size, uint64_t gpu,
                                        std::string* problem);

  // Leaves.
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool HasEverybody() const;
  // It has joined, and has left or its process has ended.
  bool IsGone(int rank) const;
  // Another rank with this one's GPU; -1 if there is none.
  int RankWithSameGpu() const;

  // Writes to `reader`, or to all, as much as there is room for, and returns how much; -1 if the system refuses.
  int64_t Write(int reader, const void* data, size_t size);
  // Reads what is there of the next `size` bytes that `writer` has written, and returns how much; -1 if the system
  // refuses.
  int64_t Read(int writer, Track track, void* data, size_t size);
  // Passes over the next `size` bytes, written or not.
  void Skip(int writer, Track track, size_t size);

  // What Wait() waits for to change: any rank's writing, reading, joining or leaving.
  uint32_t events() const;
  // Returns at the latest after `most`, and early for any reason.
  void Wait(uint32_t seen, std::chrono::milliseconds most) const;
  // Ends the waits of all ranks, which look again.
  void Wake();

 private:
  enum class State : uint32_t { kAbsent, kJoining, kJoined, kLeft };
  struct Header;
  struct Rank;
  struct Pair;

  Exchange(int fd, char* memory, int rank, int size) : fd_(fd), memory_(memory), rank_(rank), size_(size) {}

  // Of the part that is mapped: the header, the ranks, then the pairs by writer and reader.
  static size_t MappedSize(int size);
  Header& header() const;
  Rank& of(int rank) const;
  Pair& pair(int writer, int reader) const;
  bool HasJoined(int rank) const;
  bool TakeRank(uint64_t gpu);
  // A process that has joined the exchange of this file.
  static bool AnyoneIsAlive(int fd);
  // Up to where all have read what this rank has written to `reader`.
  uint64_t ReadByAll(int reader) const;
  // Where the ring of a track begins in the file.
  int64_t RingOf(int writer, int reader) const;
  // Gives back the memory of what everybody has read, up to `read`, of what this rank has written, up to `written`.
  void Trim(int reader, uint64_t read, uint64_t written);

  const int fd_;
  char* const memory_;
  const int rank_;
  const int size_;
  bool is_member_ = true;
  std::map<int, uint64_t> trimmed_;  // By the reader.
};

}  // namespace frugal::sim::nccl

#endif  // FRUGAL_CUDA_SIMULATED_LIBRARIES_NCCL_EXCHANGE_H_
