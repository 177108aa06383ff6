#include "simulated_gpu/machine/sparse_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace frugal::sim {

std::shared_ptr<SparseFile> SparseFile::Create() {
  const int fd = memfd_create("frugal_simulated_gpu", MFD_CLOEXEC);
  if (fd < 0) return nullptr;
  struct stat status;
  if (ftruncate(fd, kSize.count()) != 0 || fstat(fd, &status) != 0) {
    close(fd);
    return nullptr;
  }
  return std::shared_ptr<SparseFile>(new SparseFile(fd, status.st_ino));
}

std::shared_ptr<SparseFile> SparseFile::FromDescriptor(int fd) {
  struct stat status;
  if (fstat(fd, &status) != 0 || status.st_size != kSize.count()) return nullptr;
  const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own < 0) return nullptr;
  return std::shared_ptr<SparseFile>(new SparseFile(own, status.st_ino));
}

SparseFile::~SparseFile() { close(fd_); }

Bytes SparseFile::AllocatedBytes() const {
  constexpr int64_t kBlock = 512;  // stat's unit, whatever the file system's.
  struct stat status;
  return fstat(fd_, &status) == 0 ? Bytes(status.st_blocks * kBlock) : Bytes(0);
}

void SparseFile::Discard(Bytes offset, Bytes size) {
  // Cannot fail on such a file but for lack of kernel memory, and then the host only keeps pages that nobody reads.
  (void)fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset.count(), size.count());
}

}  // namespace frugal::sim
