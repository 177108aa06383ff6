// What NCCL's stand-in asks of the host: which processes are alive, and which NCCL the program was built for.

#pragma once

#include <cstdint>
#include <string>

namespace frugal::sim::nccl {

// Which process a rank is, so that others can tell when it has ended. A process's number is given to others after its
// end; together with when it began it is its own. A lock of the kernel's on the file would tell as much, but one that a
// forked worker of the rank would keep alive.
struct Process {
  int64_t pid = 0;
  uint64_t began = 0;  // In the kernel's ticks since the host's start.

  static Process This();
  // False as well for one that has ended and whose parent has not asked how.
  bool IsAlive() const;
};

// As ncclGetVersion() has it: what stands in the name of the package with NCCL in a folder of Python packages, as
// nvidia_nccl_cu13-2.28.9.dist-info; 0 if there is none.
int VersionOfPackage(const std::string& folder);

// Of the package that PyTorch brings along, whose headers it was built with; without one, a recent version.
int Version();

}  // namespace frugal::sim::nccl
