// A range of a GPU's memory on its way to another process: as a file descriptor (cuMemExportToShareableHandle) or as
// 64 bytes (cudaIpcGetMemHandle).

#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "allocator/port/units.h"
#include "simulated_gpu/machine/sparse_file.h"

namespace frugal::sim {

using IpcHandle = std::array<std::byte, 64>;

struct SharedRange {
  FileRange range;
  Bytes size;
  int gpu = 0;

  // A new descriptor of the GPU's file, whose position says which range of it is meant; the caller closes it. It
  // serves after this process has ended, too. -1 if the system refuses.
  int ToDescriptor() const;
  // nullopt if `fd`, which stays the caller's, is no such descriptor.
  static std::optional<SharedRange> FromDescriptor(int fd);

  // Names the file by process and descriptor number: of use while this process runs.
  IpcHandle ToIpcHandle() const;
  // nullopt if the bytes are not such a handle, or the process that made them has ended.
  static std::optional<SharedRange> FromIpcHandle(const IpcHandle& handle);
};

}  // namespace frugal::sim
