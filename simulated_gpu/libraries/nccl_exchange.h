// What the ranks of one communicator exchange data through: a file in shared memory.

#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace frugal::sim::nccl {

// One rank's part in it. A rank posts messages on a track for all ranks, and on one for each other rank. A track has
// kSlots fixed slots, each for one message, which are used in turn: whoever posts is ahead of the slowest reader by so
// many messages at most. All ranks post and pass equally many messages for all. Nothing here waits but Wait().
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

  enum class Track { kOfAll, kOfPair };
  enum class Step { kMade, kNotYet, kOtherLabel, kRefusedBySystem };

  // A name for an exchange that nobody else of this host has.
  static std::string NewName();
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

  // No message can be posted before `reader` passes one.
  bool IsFull(Track track, int reader) const;
  // Posts a message of at most kPiece bytes, which stands for itself and as many after it that nobody reads as
  // `messages` says; kNotYet: there is no slot for it. Of a message for all, `reader` means nothing; likewise below.
  Step Post(Track track, int reader, const Label& label, const void* data, size_t size, uint64_t messages = 1);
  // Reads the message of `writer`'s that this rank is at, of `size` bytes. With another label than `label`, that one is
  // `label`'s afterwards. kNotYet: it is not there.
  Step Read(Track track, int writer, Label* label, void* data, size_t size) const;
  // Goes on to the next message, whether this one was read or even posted.
  void Pass(Track track, int writer);

  // What Wait() waits for to change: any rank's posting, passing, joining or leaving.
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
  std::atomic<uint64_t>& posted(Track track, int writer, int reader) const;
  std::atomic<uint64_t>& passed(Track track, int writer, int reader) const;
  bool TakeRank(uint64_t gpu);
  // Where the slot of a message begins in the file.
  int64_t SlotOf(Track track, int writer, int reader, uint64_t message) const;

  const int fd_;
  char* const memory_;
  const int rank_;
  const int size_;
  bool is_member_ = true;
};

}  // namespace frugal::sim::nccl
