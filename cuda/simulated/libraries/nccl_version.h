// The NCCL that the program was built for.

#ifndef FRUGAL_CUDA_SIMULATED_LIBRARIES_NCCL_VERSION_H_
#define FRUGAL_CUDA_SIMULATED_LIBRARIES_NCCL_VERSION_H_

#include <string>

namespace frugal::sim::nccl {

// As ncclGetVersion() has it.
constexpr int VersionCode(int major, int minor, int patch) { return major * 10000 + minor * 100 + patch; }

// What stands in the name of the package with NCCL in a folder of Python packages, as
// nvidia_nccl_cu13-2.28.9.dist-info; 0 if there is none.
int VersionOfPackage(const std::string& folder);

// Of the package that PyTorch brings along, whose headers it was built with; without one, a recent version.
int Version();

}  // namespace frugal::sim::nccl

#endif  // FRUGAL_CUDA_SIMULATED_LIBRARIES_NCCL_VERSION_H_
