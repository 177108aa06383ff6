// What the parts of the cuDNN stand-in share: its handle, its tensor descriptor and its statuses.

#pragma once

#include <cstddef>
#include <vector>

#include "simulated_gpu/libraries/stand_in.h"

namespace frugal::sim {

inline constexpr int kMajor = FRUGAL_SIM_CUDNN_MAJOR;

// cudnnStatus_t, which cuDNN 9 numbered anew; a handle that is not there is a bad parameter.
inline constexpr Library kLibrary{
    .success = {0, "CUDNN_STATUS_SUCCESS"},
    .not_initialized = {kMajor < 9 ? 3 : 2000, "CUDNN_STATUS_BAD_PARAM"},
    .invalid_value = {kMajor < 9 ? 3 : 2000, "CUDNN_STATUS_BAD_PARAM"},
    .execution_failed = {kMajor < 9 ? 8 : 5000, "CUDNN_STATUS_EXECUTION_FAILED"},
    .not_supported = {kMajor < 9 ? 9 : 3000, "CUDNN_STATUS_NOT_SUPPORTED (by the simulated GPU)"},
};
inline constexpr int kBadParameter = kLibrary.invalid_value.value;

// What cudnnHandle_t points to. As with the real one, a handle belongs to one thread at a time.
struct Handle {
  Stream stream = nullptr;
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
