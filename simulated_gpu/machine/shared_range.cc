#include "simulated_gpu/machine/shared_range.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "simulated_gpu/machine/configuration.h"

namespace frugal::sim {
namespace {

// The position of a shared descriptor, from its lowest bit: offset in pages, size in pages, GPU. One more bit keeps
// it from being the 0 of a descriptor that somebody merely opened.
constexpr int kOffsetBits = 34;
constexpr int kSizeBits = 20;
constexpr int kGpuBits = 6;
static_assert((int64_t{1} << kOffsetBits) * kPageSize.count() == SparseFile::kSize.count());

constexpr uint64_t LowBits(int count) { return (uint64_t{1} << count) - 1; }

uint64_t Position(Bytes offset, Bytes size, int gpu) {
  const auto pages = [](Bytes bytes) { return static_cast<uint64_t>(bytes.count() / kPageSize.count()); };
  return pages(offset) | pages(size) << kOffsetBits | static_cast<uint64_t>(gpu) << (kOffsetBits + kSizeBits) |
         uint64_t{1} << (kOffsetBits + kSizeBits + kGpuBits);
}

std::string DescriptorPath(pid_t process, int fd) {
  return "/proc/" + std::to_string(process) + "/fd/" + std::to_string(fd);
}

// What the 64 bytes of an IpcHandle hold.
struct IpcRecord {
  uint64_t magic;
  int64_t offset;
  int64_t size;
  int32_t process;
  int32_t fd;
  int32_t gpu;
  char unused[28];
};
static_assert(sizeof(IpcRecord) == sizeof(IpcHandle));

constexpr uint64_t kMagic = 0x6672756761'6c3031;  // "frugal01"

// Whether these can be a range of a GPU's file: anybody can make up a handle.
bool IsRange(int64_t offset, int64_t size) {
  const int64_t page = kPageSize.count();
  return offset >= 0 && size > 0 && offset % page == 0 && size % page == 0 && size <= SparseFile::kSize.count() &&
         offset <= SparseFile::kSize.count() - size;
}

}  // namespace

int SharedRange::ToDescriptor() const {
  // Opened anew, not duplicated: duplicates share one position.
  const int fd = open(DescriptorPath(getpid(), range.file->fd()).c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return -1;
  if (lseek(fd, static_cast<off_t>(Position(range.offset, size, gpu)), SEEK_SET) < 0) {
    close(fd);
    return -1;
  }
  return fd;
}

std::optional<SharedRange> SharedRange::FromDescriptor(int fd) {
  const off_t position = lseek(fd, 0, SEEK_CUR);
  if (position <= 0) return std::nullopt;
  const auto bits = static_cast<uint64_t>(position);
  if (bits >> (kOffsetBits + kSizeBits + kGpuBits) != 1) return std::nullopt;
  SharedRange shared;
  shared.range.offset = kPageSize * static_cast<int64_t>(bits & LowBits(kOffsetBits));
  shared.size = kPageSize * static_cast<int64_t>(bits >> kOffsetBits & LowBits(kSizeBits));
  shared.gpu = static_cast<int>(bits >> (kOffsetBits + kSizeBits) & LowBits(kGpuBits));
  if (!IsRange(shared.range.offset.count(), shared.size.count())) return std::nullopt;
  shared.range.file = SparseFile::FromDescriptor(fd);
  if (!shared.range.file) return std::nullopt;
  return shared;
}

IpcHandle SharedRange::ToIpcHandle() const {
  const IpcRecord record{kMagic, range.offset.count(), size.count(), getpid(), range.file->fd(), gpu, {}};
  IpcHandle handle;
  std::memcpy(handle.data(), &record, sizeof(record));
  return handle;
}

std::optional<SharedRange> SharedRange::FromIpcHandle(const IpcHandle& handle) {
  IpcRecord record;
  std::memcpy(&record, handle.data(), sizeof(record));
  const bool is_gpu = record.gpu >= 0 && record.gpu < Configuration::kMostGpus;
  if (record.magic != kMagic || !is_gpu || !IsRange(record.offset, record.size)) return std::nullopt;
  // Without O_NONBLOCK a made-up descriptor that is a pipe's could make us wait.
  const int fd = open(DescriptorPath(record.process, record.fd).c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  SharedRange shared{{SparseFile::FromDescriptor(fd), Bytes(record.offset)}, Bytes(record.size), record.gpu};
  close(fd);
  if (!shared.range.file) return std::nullopt;
  return shared;
}

}  // namespace frugal::sim
