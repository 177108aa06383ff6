#include "cuda/simulated/libraries/nccl_exchange.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>

#include "cuda/simulated/libraries/nccl_host.h"

namespace frugal::sim::nccl {

struct Exchange::Rank {
  std::atomic<State> state;
  int64_t pid;
  uint64_t began;
  uint64_t gpu;
  std::atomic<uint64_t> posted;  // To all.
};

// Of a pair: messages on the track of that pair, and those that the reader has taken of the track that is for all.
struct Exchange::Pair {
  std::atomic<uint64_t> taken_of_all;
  std::atomic<uint64_t> posted;
  std::atomic<uint64_t> taken;
};

struct Exchange::Header {
  std::atomic<uint32_t> events;
  std::atomic<uint32_t> waiting;
  std::atomic<int32_t> joined;
  std::atomic<int32_t> size;
};

namespace {

constexpr size_t kPage = 4096;
// Before the ranks.
constexpr size_t kHeader = 64;
constexpr mode_t kMode = 0600;
// A file that nobody has joined yet may be somebody's who is about to.
constexpr int kSecondsToJoin = 60;

constexpr int64_t kLabel = sizeof(Exchange::Label);

// The system has done the whole of it.
bool IsAll(ssize_t done, size_t size) { return done == static_cast<ssize_t>(size); }

}  // namespace

std::string Exchange::FileOf(const std::string& name) {
  struct stat status = {};
  const bool has_shared = stat("/dev/shm", &status) == 0 && S_ISDIR(status.st_mode);
  return (has_shared ? "/dev/shm/frugal_nccl-" : "/tmp/frugal_nccl-") + std::to_string(geteuid()) + "-" + name;
}

size_t Exchange::MappedSize(int size) {
  const auto ranks = static_cast<size_t>(size);
  return (kHeader + ranks * sizeof(Rank) + ranks * ranks * sizeof(Pair) + kPage - 1) / kPage * kPage;
}

Exchange::Header& Exchange::header() const { return *reinterpret_cast<Header*>(memory_); }

Exchange::Rank& Exchange::of(int rank) const { return reinterpret_cast<Rank*>(memory_ + kHeader)[rank]; }

Exchange::Pair& Exchange::pair(int writer, int reader) const {
  auto* const pairs = reinterpret_cast<Pair*>(memory_ + kHeader + static_cast<size_t>(size_) * sizeof(Rank));
  return pairs[writer * size_ + reader];
}

int64_t Exchange::SlotOf(int writer, int reader, uint64_t message) const {
  const int64_t track = reader == kEverybody ? writer : int64_t{size_} * (1 + writer) + reader;
  const uint64_t slot = static_cast<uint64_t>(track) * kSlots + message % kSlots;
  return static_cast<int64_t>(MappedSize(size_) + slot * kSlot);
}

std::unique_ptr<Exchange> Exchange::Join(const std::string& name, int rank, int size, uint64_t gpu,
                                         std::string* problem) {
  const std::string path = FileOf(name);
  const auto refuse = [&](const std::string& why) {
    *problem = path + ": " + why;
    return nullptr;
  };
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kMode);
  if (fd < 0) return refuse(std::strerror(errno));
  const auto tracks = static_cast<size_t>(size) * (1 + static_cast<size_t>(size));
  const size_t mapped_size = MappedSize(size);
  // What is mapped must be there, since no room for it would end the process.
  void* mapped = MAP_FAILED;
  if (ftruncate(fd, static_cast<off_t>(mapped_size + tracks * kSlots * kSlot)) == 0 &&
      posix_fallocate(fd, 0, static_cast<off_t>(mapped_size)) == 0) {
    mapped = mmap(nullptr, mapped_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  if (mapped == MAP_FAILED) {
    close(fd);
    return refuse("there is no room for it");
  }
  std::unique_ptr<Exchange> exchange(new Exchange(fd, static_cast<char*>(mapped), rank, size));
  if (!exchange->TakeRank(gpu)) {
    exchange->is_member_ = false;
    return refuse("rank " + std::to_string(rank) + " is there already");
  }
  exchange->header().size = size;
  if (exchange->header().joined.fetch_add(1) + 1 == size) (void)unlink(path.c_str());
  exchange->Wake();
  return exchange;
}

bool Exchange::TakeRank(uint64_t gpu) {
  Rank& mine = of(rank_);
  State expected = State::kAbsent;
  if (!mine.state.compare_exchange_strong(expected, State::kJoining)) return false;
  const Process process = Process::This();
  mine.pid = process.pid;
  mine.began = process.began;
  mine.gpu = gpu;
  mine.state = State::kJoined;
  return true;
}

Exchange::~Exchange() {
  if (is_member_) {
    of(rank_).state = State::kLeft;
    Wake();
  }
  munmap(memory_, MappedSize(size_));
  close(fd_);
}

bool Exchange::HasEverybody() const { return header().joined == size_; }

bool Exchange::HasJoined(int rank) const {
  const State state = of(rank).state;
  return state == State::kJoined || state == State::kLeft;
}

bool Exchange::IsGone(int rank) const {
  const Rank& other = of(rank);
  const State state = other.state;
  if (state == State::kLeft) return true;
  return state == State::kJoined && !Process{other.pid, other.began}.IsAlive();
}

int Exchange::RankWithSameGpu() const {
  const uint64_t mine = of(rank_).gpu;
  for (int rank = 0; rank < size_ && mine != 0; ++rank) {
    if (rank != rank_ && HasJoined(rank) && of(rank).gpu == mine) return rank;
  }
  return -1;
}

bool Exchange::IsFull(int reader, Track track) const {
  const bool of_all = track == Track::kOfAll;
  const Pair& both = pair(rank_, reader);
  const uint64_t posted = of_all ? of(rank_).posted : both.posted;
  // A reader that passes over what comes may be ahead.
  const uint64_t taken = std::min<uint64_t>(posted, of_all ? both.taken_of_all : both.taken);
  return posted - taken >= kSlots;
}

Exchange::Step Exchange::Post(int reader, const Label& label, const void* data, size_t size) {
  const bool to_all = reader == kEverybody;
  for (int rank = to_all ? 0 : reader; rank < (to_all ? size_ : reader + 1); ++rank) {
    if (to_all && rank == rank_) continue;
    if (IsFull(rank, to_all ? Track::kOfAll : Track::kOfPair)) return Step::kNotYet;
  }
  std::atomic<uint64_t>& posted = to_all ? of(rank_).posted : pair(rank_, reader).posted;
  const uint64_t message = posted;
  const int64_t slot = SlotOf(rank_, reader, message);
  const bool is_there = IsAll(pwrite(fd_, &label, sizeof(label), slot), sizeof(label)) &&
                        IsAll(pwrite(fd_, data, size, slot + kLabel), size);
  if (!is_there) return Step::kRefusedBySystem;
  posted = message + 1;
  Wake();
  return Step::kMade;
}

Exchange::Step Exchange::Take(int writer, Track track, Label* label, void* data, size_t size) {
  const bool of_all = track == Track::kOfAll;
  Pair& both = pair(writer, rank_);
  std::atomic<uint64_t>& taken = of_all ? both.taken_of_all : both.taken;
  const uint64_t message = taken;
  if (message >= (of_all ? of(writer).posted : both.posted)) return Step::kNotYet;
  const int64_t slot = SlotOf(writer, of_all ? kEverybody : rank_, message);
  Label found;
  if (!IsAll(pread(fd_, &found, sizeof(found), slot), sizeof(found))) return Step::kRefusedBySystem;
  if (found != *label) {
    *label = found;
    return Step::kOtherLabel;
  }
  if (!IsAll(pread(fd_, data, size, slot + kLabel), size)) return Step::kRefusedBySystem;
  taken = message + 1;
  Wake();
  return Step::kMade;
}

void Exchange::Skip(int writer, Track track, uint64_t messages) {
  if (messages == 0) return;
  Pair& both = pair(writer, rank_);
  (track == Track::kOfAll ? both.taken_of_all : both.taken) += messages;
  Wake();
}

uint32_t Exchange::events() const { return header().events; }

void Exchange::Wait(uint32_t seen, std::chrono::milliseconds most) const {
  constexpr int64_t kNanosecondsOfMillisecond = 1'000'000;
  const timespec limit = {.tv_sec = most.count() / 1000, .tv_nsec = most.count() % 1000 * kNanosecondsOfMillisecond};
  ++header().waiting;
  syscall(SYS_futex, &header().events, FUTEX_WAIT, seen, &limit, nullptr, 0);
  --header().waiting;
}

void Exchange::Wake() {
  ++header().events;
  if (header().waiting > 0) syscall(SYS_futex, &header().events, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Exchange::RemoveAbandoned() {
  for (const std::string& path : PathsLike(FileOf("*"))) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) continue;
    struct stat status = {};
    const bool ours = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid();
    if (ours && std::time(nullptr) - status.st_mtime > kSecondsToJoin && !AnyoneIsAlive(fd)) (void)unlink(path.c_str());
    close(fd);
  }
}

bool Exchange::AnyoneIsAlive(int fd) {
  Header header;
  if (pread(fd, static_cast<void*>(&header), sizeof(header), 0) != sizeof(header)) return false;
  const int size = std::clamp<int>(header.size, 0, kMostRanks);
  for (int rank = 0; rank < size; ++rank) {
    Rank other;
    const auto place = static_cast<off_t>(kHeader + static_cast<size_t>(rank) * sizeof(Rank));
    if (pread(fd, static_cast<void*>(&other), sizeof(other), place) != sizeof(other)) return false;
    if (other.state != State::kAbsent && Process{other.pid, other.began}.IsAlive()) return true;
  }
  return false;
}

}  // namespace frugal::sim::nccl
