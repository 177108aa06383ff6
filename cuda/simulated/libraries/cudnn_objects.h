// What the parts of the cuDNN stand-in share: its handle, its tensor descriptor and its statuses.

#ifndef FRUGAL_CUDA_SIMULATED_LIBRARIES_CUDNN_OBJECTS_H_
#define FRUGAL_CUDA_SIMULATED_LIBRARIES_CUDNN_OBJECTS_H_

#include <cstddef>
#include <vector>

#include "cuda/simulated/libraries/stand_in.h"

namespace frugal::sim {

// cudnnStatus_t, the ones that are answered here.
enum DnnStatus {
  kDnnSuccess = 0,
  kDnnBadParameter = 2000,
  kDnnNotSupported = 3000,
  kDnnExecutionFailed = 5000,
};

// What cudnnHandle_t points to. As with the real one, a handle belongs to one thread at a time.
struct DnnHandle {
  Stream stream = nullptr;

  DnnStatus Compute() const { return LaunchKernel(stream) ? kDnnSuccess : kDnnExecutionFailed; }
};

// A tensor or a filter (whose strides are left empty).
struct TensorDescriptor {
  int data_type = 0;
  std::vector<int> sizes;
  std::vector<int> strides;
};

// Size of one element of a cudnnDataType_t; types narrower than a byte count as one.
size_t ElementBytes(int data_type);

}  // namespace frugal::sim

#endif  // FRUGAL_CUDA_SIMULATED_LIBRARIES_CUDNN_OBJECTS_H_
