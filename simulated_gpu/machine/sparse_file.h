// Host memory that stands for a GPU's physical memory: one anonymous file without end, of which only the pages that
// were touched take room.
//
// One file for a whole GPU, rather than one for each handle: a GPU of 70 GiB has 35,840 handles, more than a process
// may have open files, and parts that lie side by side in both file and addresses share one mapping of the kernel
// (vm.max_map_count allows 65,530).

#pragma once

#include <sys/types.h>

#include <memory>

#include "allocator/port/units.h"

namespace frugal::sim {

class SparseFile {
 public:
  // Far beyond any sum of allocations in one process, so that an offset never has to be handed out twice.
  static constexpr Bytes kSize = Bytes(int64_t{1} << 55);

  // nullptr if the system refuses.
  static std::shared_ptr<SparseFile> Create();
  // The file that `fd`, which stays the caller's, refers to; nullptr if it is not of this kind.
  static std::shared_ptr<SparseFile> FromDescriptor(int fd);

  ~SparseFile();
  SparseFile(const SparseFile&) = delete;
  SparseFile& operator=(const SparseFile&) = delete;

  int fd() const { return fd_; }
  // Tells files apart, also between processes.
  ino_t inode() const { return inode_; }

  // What the host holds for it.
  Bytes AllocatedBytes() const;

  // Gives the host back what is behind [offset, offset + size); it reads as zeros from then on.
  void Discard(Bytes offset, Bytes size);

 private:
  SparseFile(int fd, ino_t inode) : fd_(fd), inode_(inode) {}

  const int fd_;
  const ino_t inode_;
};

// A range of such a file. Without a file (FRUGAL_SIM_BACKING=none) nothing is behind the addresses.
struct FileRange {
  std::shared_ptr<SparseFile> file;
  Bytes offset;
};

}  // namespace frugal::sim
