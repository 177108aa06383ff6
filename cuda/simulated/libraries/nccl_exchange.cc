#include "cuda/simulated/libraries/nccl_exchange.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>

#include "cuda/simulated/libraries/nccl_folder.h"
#include "cuda/simulated/libraries/nccl_process.h"

namespace frugal::sim::nccl {

struct Exchange::Rank {
  std::atomic<State> state;
  int64_t pid;
  uint64_t began;
  uint64_t gpu;
  std::atomic<uint64_t> written;  // To all.
};

// Of a pair: the track of that pair, and how far the reader has read the track that is for all.
struct Exchange::Pair {
  std::atomic<uint64_t> read_of_all;
  std::atomic<uint64_t> written;
  std::atomic<uint64_t> read;
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
// What all have read is given back in pieces of this size.
constexpr uint64_t kTrimmed = 256 << 10;
constexpr mode_t kMode = 0600;
// A file that nobody has joined yet may be somebody's who is about to.
constexpr int kSecondsToJoin = 60;

std::string Folder() {
  struct stat status = {};
  const bool has_shared = stat("/dev/shm", &status) == 0 && S_ISDIR(status.st_mode);
  return has_shared ? "/dev/shm/" : "/tmp/";
}

std::string Prefix() { return "frugal_nccl-" + std::to_string(geteuid()) + "-"; }

size_t WholePages(size_t size) { return (size + kPage - 1) / kPage * kPage; }

// Calls `use(offset in the ring, place in the data, bytes)` for each of the at most two pieces that `size` bytes from
// `position` of a stream are in its ring.
template <typename Use>
bool ForEachPiece(uint64_t position, size_t size, Use use) {
  for (size_t done = 0; done < size;) {
    const size_t offset = (position + done) % Exchange::kRing;
    const size_t piece = std::min(size - done, Exchange::kRing - offset);
    if (!use(static_cast<int64_t>(offset), done, piece)) return false;
    done += piece;
  }
  return true;
}

}  // namespace

std::string Exchange::NewName() {
  std::array<unsigned char, 16> random;
  if (getentropy(random.data(), random.size()) != 0) {
    // Without the kernel's, one that nobody else has either.
    const Process process = Process::This();
    static std::atomic<uint64_t> names{0};
    return std::to_string(process.pid) + "-" + std::to_string(process.began) + "-" + std::to_string(++names);
  }
  std::string name;
  for (const unsigned char byte : random) {
    constexpr char kDigits[] = "0123456789abcdef";
    name += {kDigits[byte / 16], kDigits[byte % 16]};
  }
  return name;
}

std::string Exchange::FileOf(const std::string& name) { return Folder() + Prefix() + name; }

size_t Exchange::MappedSize(int size) {
  const auto ranks = static_cast<size_t>(size);
  return WholePages(kHeader + ranks * sizeof(Rank) + ranks * ranks * sizeof(Pair));
}

Exchange::Header& Exchange::header() const { return *reinterpret_cast<Header*>(memory_); }

Exchange::Rank& Exchange::of(int rank) const { return reinterpret_cast<Rank*>(memory_ + kHeader)[rank]; }

Exchange::Pair& Exchange::pair(int writer, int reader) const {
  auto* const pairs = reinterpret_cast<Pair*>(memory_ + kHeader + static_cast<size_t>(size_) * sizeof(Rank));
  return pairs[writer * size_ + reader];
}

int64_t Exchange::RingOf(int writer, int reader) const {
  const int64_t ring = reader == kEverybody ? writer : int64_t{size_} * (1 + writer) + reader;
  return static_cast<int64_t>(MappedSize(size_) + static_cast<size_t>(ring) * kRing);
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
  const auto rings = static_cast<size_t>(size) * (1 + static_cast<size_t>(size));
  const size_t mapped_size = MappedSize(size);
  // What is mapped must be there, since no room for it would end the process.
  void* mapped = MAP_FAILED;
  if (ftruncate(fd, static_cast<off_t>(mapped_size + rings * kRing)) == 0 &&
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

uint64_t Exchange::ReadByAll(int reader) const {
  if (reader != kEverybody) return pair(rank_, reader).read;
  uint64_t read = UINT64_MAX;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_) read = std::min<uint64_t>(read, pair(rank_, rank).read_of_all);
  }
  return read;
}

int64_t Exchange::Write(int reader, const void* data, size_t size) {
  std::atomic<uint64_t>& written = reader == kEverybody ? of(rank_).written : pair(rank_, reader).written;
  const uint64_t position = written;
  // A reader that passes over what comes may be ahead.
  const uint64_t read = std::min(ReadByAll(reader), position);
  Trim(reader, read, position);
  const size_t fits = std::min<size_t>(size, kRing - (position - read));
  if (fits == 0) return 0;
  const int64_t ring = RingOf(rank_, reader);
  const bool wrote = ForEachPiece(position, fits, [&](int64_t offset, size_t place, size_t piece) {
    const char* from = static_cast<const char*>(data) + place;
    return pwrite(fd_, from, piece, ring + offset) == static_cast<ssize_t>(piece);
  });
  if (!wrote) return -1;
  written = position + fits;
  Wake();
  return static_cast<int64_t>(fits);
}

int64_t Exchange::Read(int writer, Track track, void* data, size_t size) {
  const bool of_all = track == Track::kOfAll;
  Pair& both = pair(writer, rank_);
  std::atomic<uint64_t>& read = of_all ? both.read_of_all : both.read;
  const uint64_t written = of_all ? of(writer).written : both.written;
  const uint64_t position = read;
  if (written <= position || size == 0) return 0;
  const size_t there = std::min<size_t>(size, written - position);
  const int64_t ring = RingOf(writer, of_all ? kEverybody : rank_);
  const bool done = ForEachPiece(position, there, [&](int64_t offset, size_t place, size_t piece) {
    return pread(fd_, static_cast<char*>(data) + place, piece, ring + offset) == static_cast<ssize_t>(piece);
  });
  if (!done) return -1;
  read = position + there;
  Wake();
  return static_cast<int64_t>(there);
}

void Exchange::Skip(int writer, Track track, size_t size) {
  if (size == 0) return;
  Pair& both = pair(writer, rank_);
  (track == Track::kOfAll ? both.read_of_all : both.read) += size;
  Wake();
}

void Exchange::Trim(int reader, uint64_t read, uint64_t written) {
  uint64_t& trimmed = trimmed_[reader];
  if (read < trimmed + kTrimmed) return;
  // In whole pages, of which a ring is made; what was written since into the same places stays.
  const uint64_t end = read / kPage * kPage;
  const uint64_t kept = written > kRing ? WholePages(written - kRing) : 0;
  const uint64_t begin = std::min(end, std::max(trimmed, kept));
  const int64_t ring = RingOf(rank_, reader);
  (void)ForEachPiece(begin, end - begin, [&](int64_t offset, size_t, size_t piece) {
    constexpr int kPunch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    (void)fallocate(fd_, kPunch, ring + offset, static_cast<off_t>(piece));  // Where it cannot be, memory stays.
    return true;
  });
  trimmed = end;
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
  for (const std::string& name : NamesIn(Folder())) {
    if (!name.starts_with(Prefix())) continue;
    const std::string path = Folder() + name;
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
