// What lies in a folder. Not std::filesystem's, which asks for a newer C library than the simulated GPU is for.

#ifndef FRUGAL_CUDA_SIMULATED_LIBRARIES_NCCL_FOLDER_H_
#define FRUGAL_CUDA_SIMULATED_LIBRARIES_NCCL_FOLDER_H_

#include <string>
#include <vector>

namespace frugal::sim::nccl {

// None if it is not there or may not be read.
std::vector<std::string> NamesIn(const std::string& folder);

}  // namespace frugal::sim::nccl

#endif  // FRUGAL_CUDA_SIMULATED_LIBRARIES_NCCL_FOLDER_H_
