#include "simulated_gpu/libraries/nccl_exchange.h"

#include <fcntl.h>
#include <glob.h>
#include <linux/futex.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "simulated_gpu/libraries/nccl_host.h"

namespace frugal::sim::nccl {

struct Exchange::Rank {
  std::atomic<State> state;
  Process process;
  uint64_t gpu;
  // Of messages for all.
  std::atomic<uint64_t> posted;
  std::atomic<uint64_t> passed;
};

struct Exchange::Pair {
  std::atomic<uint64_t> posted;
  std::atomic<uint64_t> passed;
};

struct Exchange::Header {
  std::atomic<uint32_t> events;
  std::atomic<uint32_t> waiting;
  std::atomic<int32_t> joined;
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

std::string Exchange::NewName() {
  static std::atomic<int> names{0};
  std::array<uint64_t, 2> random;
  if (getentropy(random.data(), sizeof(random)) != 0) {
    // Without the kernel's, numbers that no other process has.
    const Process process = Process::This();
    random = {static_cast<uint64_t>(process.pid), process.began};
  }
  char name[64];
  (void)std::snprintf(name, sizeof(name), "%016jx%016jx-%d", static_cast<uintmax_t>(random[0]),
                      static_cast<uintmax_t>(random[1]), ++names);
  return name;
}

std::string Exchange::FileOf(const std::string& name) {
  const bool has_shared = access("/dev/shm", W_OK) == 0;
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

std::atomic<uint64_t>& Exchange::posted(Track track, int writer, int reader) const {
  return track == Track::kOfAll ? of(writer).posted : pair(writer, reader).posted;
}

std::atomic<uint64_t>& Exchange::passed(Track track, int writer, int reader) const {
  return track == Track::kOfAll ? of(reader).passed : pair(writer, reader).passed;
}

int64_t Exchange::SlotOf(Track track, int writer, int reader, uint64_t message) const {
  const int64_t number = track == Track::kOfAll ? writer : int64_t{size_} * (1 + writer) + reader;
  const uint64_t slot = static_cast<uint64_t>(number) * kSlots + message % kSlots;
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
  // While a rank is there, or a process that was forked from it, the file is not abandoned.
  (void)flock(fd, LOCK_SH);
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
  if (exchange->header().joined.fetch_add(1) + 1 == size) (void)unlink(path.c_str());
  exchange->Wake();
  return exchange;
}

bool Exchange::TakeRank(uint64_t gpu) {
  Rank& mine = of(rank_);
  State expected = State::kAbsent;
  if (!mine.state.compare_exchange_strong(expected, State::kJoining)) return false;
  mine.process = Process::This();
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

bool Exchange::IsGone(int rank) const {
  const State state = of(rank).state;
  return state == State::kLeft || (state == State::kJoined && !of(rank).process.IsAlive());
}

int Exchange::RankWithSameGpu() const {
  const uint64_t mine = of(rank_).gpu;
  for (int rank = 0; rank < size_ && mine != 0; ++rank) {
    const State state = of(rank).state;
    const bool has_joined = state == State::kJoined || state == State::kLeft;
    if (rank != rank_ && has_joined && of(rank).gpu == mine) return rank;
  }
  return -1;
}

bool Exchange::IsFull(Track track, int reader) const {
  // A reader that passes over what comes may be ahead.
  return posted(track, rank_, reader) >= passed(track, rank_, reader) + kSlots;
}

Exchange::Step Exchange::Post(Track track, int reader, const Label& label, const void* data, size_t size,
                              uint64_t messages) {
  const bool to_all = track == Track::kOfAll;
  for (int rank = to_all ? 0 : reader; rank < (to_all ? size_ : reader + 1); ++rank) {
    if ((rank != rank_ || !to_all) && IsFull(track, rank)) return Step::kNotYet;
  }
  const uint64_t message = posted(track, rank_, reader);
  const int64_t slot = SlotOf(track, rank_, reader, message);
  const bool is_there = IsAll(pwrite(fd_, &label, sizeof(label), slot), sizeof(label)) &&
                        IsAll(pwrite(fd_, data, size, slot + kLabel), size);
  if (!is_there) return Step::kRefusedBySystem;
  posted(track, rank_, reader) = message + messages;
  Wake();
  return Step::kMade;
}

Exchange::Step Exchange::Read(Track track, int writer, Label* label, void* data, size_t size) const {
  const uint64_t message = passed(track, writer, rank_);
  if (message >= posted(track, writer, rank_)) return Step::kNotYet;
  const int64_t slot = SlotOf(track, writer, rank_, message);
  Label found;
  if (!IsAll(pread(fd_, &found, sizeof(found), slot), sizeof(found))) return Step::kRefusedBySystem;
  if (found != *label) {
    *label = found;
    return Step::kOtherLabel;
  }
  return IsAll(pread(fd_, data, size, slot + kLabel), size) ? Step::kMade : Step::kRefusedBySystem;
}

void Exchange::Pass(Track track, int writer) {
  ++passed(track, writer, rank_);
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
  glob_t files = {};
  // Not by std::filesystem, which asks for a newer C library than the simulated GPU is for.
  const bool is_found = glob(FileOf("*").c_str(), GLOB_NOSORT, nullptr, &files) == 0;
  for (size_t i = 0; is_found && i < files.gl_pathc; ++i) {
    const int fd = open(files.gl_pathv[i], O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) continue;
    struct stat status = {};
    const bool ours = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid();
    const bool is_old = std::time(nullptr) - status.st_mtime > kSecondsToJoin;
    if (ours && is_old && flock(fd, LOCK_EX | LOCK_NB) == 0) (void)unlink(files.gl_pathv[i]);
    close(fd);
  }
  globfree(&files);
}

}  // namespace frugal::sim::nccl
