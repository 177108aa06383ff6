// What the ranks of one communicator exchange data through: a file in shared memory.

#ifndef FRUGAL_CUDA_SIMULATED_LIBRARIES_NCCL_EXCHANGE_H_
#define FRUGAL_CUDA_SIMULATED_LIBRARIES_NCCL_EXCHANGE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace frugal::sim::nccl {

// One rank's part in it. A rank posts messages to all others on its own track of the exchange, and to each rank on a
// track for that pair. A track has kSlots fixed slots, each for one message, which are used in turn: whoever posts is
// ahead of the slowest reader by so many messages at most. Nothing here waits but Wait().
//
// The file has no name any more once all ranks have joined, so that nothing is left of it however they end.
//
// Tracks are for one thread at a time; the rest is thread-safe.
class Exchange {
 public:
  // What a message is a piece of, so that ranks which do not call the same find out rather than read what was not
  // meant.
  struct Label {
    uint64_t kind = 0;
    uint64_t size = 0;
    bool operator==(const Label&) const = default;
  };

  // 2 MiB a track: what each rank gives at once without all values (1 MiB), twice.
  static constexpr size_t kSlot = size_t{64} << 10;
  static constexpr uint64_t kSlots = 32;
  // What one message has room for: whole elements of every type.
  static constexpr size_t kPiece = kSlot - sizeof(Label);
  static constexpr int kMostRanks = 1024;
  // In the place of a reader: all other ranks.
  static constexpr int kEverybody = -1;

  enum class Track { kOfAll, kOfPair };
  enum class Step { kMade, kNotYet, kOtherLabel, kRefusedBySystem };

  // The file of the exchange with this name.
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

  // No message can be posted on a track for it before it takes one.
  bool IsFull(int reader, Track track) const;
  // Posts a message of at most kPiece bytes to `reader`, or to all. kNotYet: there is no slot for it.
  Step Post(int reader, const Label& label, const void* data, size_t size);
  // Reads the next message of `writer`'s, of `size` bytes. With another label than `label` it stays, and `label`
  // becomes that one. kNotYet: it is not there.
  Step Take(int writer, Track track, Label* label, void* data, size_t size);
  // Passes over the next messages, posted or not.
  void Skip(int writer, Track track, uint64_t messages);

  // What Wait() waits for to change: any rank's posting, taking, joining or leaving.
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
  // Where the slot of a message begins in the file.
  int64_t SlotOf(int writer, int reader, uint64_t message) const;

  const int fd_;
  char* const memory_;
  const int rank_;
  const int size_;
  bool is_member_ = true;
};

}  // namespace frugal::sim::nccl

#endif  // FRUGAL_CUDA_SIMULATED_LIBRARIES_NCCL_EXCHANGE_H_
