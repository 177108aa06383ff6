#include "simulated_gpu/machine/compute_node.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "simulated_gpu/machine/setting_text.h"

namespace frugal::sim {

struct ComputeNode::Share {
  int64_t in_use;
  int64_t taken[kResources];
};

struct ComputeNode::File {
  static constexpr uint64_t kMagic = 0x31'65'64'6f'6e'67'75'72;  // "rugnode1"

  uint64_t magic;
  int64_t gpus;
  int64_t memory;
  int64_t mapped_handles;
  pthread_mutex_t mutex;
  // Until when the driver is busy, on the wall's clock and on clocks that are set.
  int64_t busy_until[2];
  Share shares[kMostProcesses];
};

namespace {

// Byte n of the file is locked while share n has a process; this one, while somebody opens the file.
constexpr off_t kOpening = ComputeNode::kMostProcesses;
constexpr mode_t kMode = 0600;

struct flock LockOn(off_t byte) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  return lock;
}

bool TryLock(int fd, off_t byte) {
  struct flock lock = LockOn(byte);
  return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

void WaitForLock(int fd, off_t byte) {
  struct flock lock = LockOn(byte);
  while (fcntl(fd, F_OFD_SETLKW, &lock) != 0 && errno == EINTR) {
  }
}

void Unlock(int fd, off_t byte) {
  struct flock lock = LockOn(byte);
  lock.l_type = F_UNLCK;
  (void)fcntl(fd, F_OFD_SETLK, &lock);  // A lock that is not held is not an error.
}

bool IsLockedByAnother(int fd, off_t byte) {
  struct flock lock = LockOn(byte);
  return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

bool AnyoneIsThere(int fd) {
  for (int share = 0; share < ComputeNode::kMostProcesses; ++share) {
    if (IsLockedByAnother(fd, share)) return true;
  }
  return false;
}

void MakeMutex(pthread_mutex_t* mutex) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
}

// Closes what it holds unless that is taken.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int Take() {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }

 private:
  int fd_;
};

// Why the file is not one of ours; "" if it is, or is empty.
std::string Foreign(const struct stat& status, int64_t size) {
  if (!S_ISREG(status.st_mode)) return "it is not a file";
  if (status.st_uid != geteuid()) return "it belongs to another user";
  if ((status.st_mode & 0077) != 0) return "others may read or write it";
  if (status.st_size != 0 && status.st_size != size) return "it was not made by a simulated GPU";
  return "";
}

}  // namespace

// The node's lock. A process that died with it leaves nothing half done: see ComputeNode.
class ComputeNode::Guard {
 public:
  explicit Guard(File& file) : mutex_(&file.mutex) {
    if (pthread_mutex_lock(mutex_) == EOWNERDEAD) pthread_mutex_consistent(mutex_);
  }
  ~Guard() { pthread_mutex_unlock(mutex_); }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  pthread_mutex_t* const mutex_;
};

std::unique_ptr<ComputeNode> ComputeNode::Open(const std::string& path, const Setup& setup, std::string* problem) {
  const auto refuse = [&](const std::string& why) {
    *problem = "FRUGAL_SIM_NODE='" + Shown(path) + "': " + why + "; remove it or name another file";
    return nullptr;
  };
  constexpr int kFlags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  Descriptor fd(open(path.c_str(), kFlags, kMode));
  if (fd.get() < 0) return refuse(std::string("it cannot be opened (") + std::strerror(errno) + ")");
  WaitForLock(fd.get(), kOpening);
  struct stat status;
  if (fstat(fd.get(), &status) != 0) return refuse("it cannot be read");
  const std::string foreign = Foreign(status, sizeof(File));
  if (!foreign.empty()) return refuse(foreign);
  const bool is_new = status.st_size == 0;
  if (is_new && posix_fallocate(fd.get(), 0, sizeof(File)) != 0) return refuse("there is no room for it");

  File* file = Map(path, status.st_ino);
  if (file == nullptr) return refuse("it was replaced while it was opened");
  std::string why;
  int share = -1;
  if (!is_new && file->magic != File::kMagic) {
    why = "it was not made by a simulated GPU";
  } else if (why = Agree(*file, setup, AnyoneIsThere(fd.get())); why.empty()) {
    share = TakeShare(*file, fd.get());
    if (share < 0) why = "it has " + std::to_string(kMostProcesses) + " processes already";
  }
  if (!why.empty()) {
    munmap(file, sizeof(File));
    return refuse(why);
  }
  Unlock(fd.get(), kOpening);
  return std::unique_ptr<ComputeNode>(new ComputeNode(file, fd.Take(), share));
}

ComputeNode::File* ComputeNode::Map(const std::string& path, uint64_t inode) {
  const Descriptor fd(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  struct stat status;
  if (fd.get() < 0 || fstat(fd.get(), &status) != 0 || status.st_ino != inode) return nullptr;
  void* mapped = mmap(nullptr, sizeof(File), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  return mapped == MAP_FAILED ? nullptr : static_cast<File*>(mapped);
}

std::string ComputeNode::Agree(File& file, const Setup& setup, bool in_use) {
  if (!in_use) {
    file = {};
    file.gpus = setup.gpus;
    file.memory = setup.memory.count();
    file.mapped_handles = setup.mapped_handles;
    MakeMutex(&file.mutex);
    file.magic = File::kMagic;
  }
  if (file.gpus == setup.gpus && file.memory == setup.memory.count() && file.mapped_handles == setup.mapped_handles) {
    return "";
  }
  return "its processes have " + std::to_string(file.gpus) + " GPUs of " + std::to_string(file.memory) + " bytes and " +
         std::to_string(file.mapped_handles) + " mapped handles, and this one has others: set the same";
}

int ComputeNode::TakeShare(File& file, int lock_fd) {
  const Guard guard(file);
  for (int share = 0; share < kMostProcesses; ++share) {
    if (!TryLock(lock_fd, share)) continue;
    file.shares[share] = {};
    file.shares[share].in_use = 1;
    return share;
  }
  return -1;
}

ComputeNode::~ComputeNode() {
  if (!left_) {
    const Guard guard(*file_);
    mine() = {};
  }
  munmap(file_, sizeof(File));
  if (lock_fd_ >= 0) close(lock_fd_);
}

void ComputeNode::Leave() {
  left_ = true;
  // The parent's lock is the open file's, which two processes now share, and ends when both are done with it.
  close(lock_fd_);
  lock_fd_ = -1;
}

ComputeNode::Share& ComputeNode::mine() { return file_->shares[share_]; }

int64_t ComputeNode::Left(int resource) const {
  int64_t left = resource == kMappedHandles ? file_->mapped_handles : file_->memory;
  for (const Share& share : file_->shares) left -= share.taken[resource];
  return left;
}

void ComputeNode::DropDead() {
  for (int share = 0; share < kMostProcesses; ++share) {
    if (share == share_ || file_->shares[share].in_use == 0) continue;
    if (!IsLockedByAnother(lock_fd_, share)) file_->shares[share] = {};
  }
}

bool ComputeNode::Take(int resource, int64_t amount) {
  if (left_) return false;
  const Guard guard(*file_);
  if (amount > Left(resource)) DropDead();
  if (amount > Left(resource)) return false;
  mine().taken[resource] += amount;
  return true;
}

void ComputeNode::GiveBack(int resource, int64_t amount) {
  if (left_) return;
  const Guard guard(*file_);
  mine().taken[resource] -= amount;
}

Bytes ComputeNode::FreeMemory(int gpu) {
  if (left_) return Bytes(0);
  const Guard guard(*file_);
  DropDead();
  return Bytes(std::max<int64_t>(0, Left(gpu)));
}

int64_t ComputeNode::mapped_handles() {
  if (left_) return 0;
  const Guard guard(*file_);
  DropDead();
  return file_->mapped_handles - Left(kMappedHandles);
}

Nanoseconds ComputeNode::EnterDriver(Nanoseconds begin, Nanoseconds cost, bool manual_clock) {
  if (left_) return begin;
  const Guard guard(*file_);
  int64_t& busy_until = file_->busy_until[manual_clock ? 1 : 0];
  const int64_t entered = std::max(begin.count(), busy_until);
  busy_until = entered + cost.count();
  return Nanoseconds(entered);
}

int ComputeNode::processes() {
  if (left_) return 0;
  const Guard guard(*file_);
  DropDead();
  return static_cast<int>(std::count_if(std::begin(file_->shares), std::end(file_->shares),
                                        [](const Share& share) { return share.in_use != 0; }));
}

}  // namespace frugal::sim
