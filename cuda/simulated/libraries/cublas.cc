// The stand-in for cuBLAS: see stand_in.h. Handles remember their stream and modes; a GEMM is one kernel.

#include <cstddef>

#include "cuda/simulated/libraries/stand_in.h"

namespace frugal::sim {
namespace {

// cublasStatus_t
enum Status {
  kSuccess = 0,
  kNotInitialized = 1,
  kInvalidValue = 7,
  kExecutionFailed = 13,
  kNotSupported = 15,
};

// The first release of the major version that this library is built as, in cuBLAS's own notation.
constexpr int kVersion = FRUGAL_SIM_CUDA_MAJOR * 10000;

}  // namespace

// What cublasHandle_t points to. As with the real one, a handle belongs to one thread at a time.
struct BlasHandle {
  Stream stream = nullptr;
  int math_mode = 0;
  int pointer_mode = 0;
  int atomics_mode = 0;
  int sm_count_target = 0;

  Status Compute() const { return LaunchKernel(stream) ? kSuccess : kExecutionFailed; }
};

namespace {

template <typename Value>
Status Set(BlasHandle* handle, Value BlasHandle::*field, Value value) {
  if (handle == nullptr) return kNotInitialized;
  handle->*field = value;
  return kSuccess;
}

template <typename Value>
Status Get(const BlasHandle* handle, Value BlasHandle::*field, Value* value) {
  if (handle == nullptr) return kNotInitialized;
  if (value == nullptr) return kInvalidValue;
  *value = handle->*field;
  return kSuccess;
}

Status ComputeAndReport(const BlasHandle* handle, int* info) {
  if (handle == nullptr) return kNotInitialized;
  if (info == nullptr) return kInvalidValue;
  *info = 0;
  return handle->Compute();
}

}  // namespace

FRUGAL_STAND_IN int cublasCreate_v2(BlasHandle** handle) {
  if (handle == nullptr) return kInvalidValue;
  *handle = new BlasHandle;
  return kSuccess;
}

FRUGAL_STAND_IN int cublasDestroy_v2(BlasHandle* handle) {
  if (handle == nullptr) return kNotInitialized;
  delete handle;
  return kSuccess;
}

FRUGAL_STAND_IN int cublasSetStream_v2(BlasHandle* handle, Stream stream) {
  return Set(handle, &BlasHandle::stream, stream);
}
FRUGAL_STAND_IN int cublasGetStream_v2(BlasHandle* handle, Stream* stream) {
  return Get(handle, &BlasHandle::stream, stream);
}
FRUGAL_STAND_IN int cublasSetMathMode(BlasHandle* handle, int mode) {
  return Set(handle, &BlasHandle::math_mode, mode);
}
FRUGAL_STAND_IN int cublasGetMathMode(BlasHandle* handle, int* mode) {
  return Get(handle, &BlasHandle::math_mode, mode);
}
FRUGAL_STAND_IN int cublasSetPointerMode_v2(BlasHandle* handle, int mode) {
  return Set(handle, &BlasHandle::pointer_mode, mode);
}
FRUGAL_STAND_IN int cublasGetPointerMode_v2(BlasHandle* handle, int* mode) {
  return Get(handle, &BlasHandle::pointer_mode, mode);
}
FRUGAL_STAND_IN int cublasSetAtomicsMode(BlasHandle* handle, int mode) {
  return Set(handle, &BlasHandle::atomics_mode, mode);
}
FRUGAL_STAND_IN int cublasGetAtomicsMode(BlasHandle* handle, int* mode) {
  return Get(handle, &BlasHandle::atomics_mode, mode);
}
FRUGAL_STAND_IN int cublasSetSmCountTarget(BlasHandle* handle, int count) {
  return Set(handle, &BlasHandle::sm_count_target, count);
}
FRUGAL_STAND_IN int cublasGetSmCountTarget(BlasHandle* handle, int* count) {
  return Get(handle, &BlasHandle::sm_count_target, count);
}

FRUGAL_STAND_IN int cublasSetWorkspace_v2(BlasHandle* handle, void* workspace, size_t bytes) {
  if (handle == nullptr) return kNotInitialized;
  NoteWorkspace(workspace, bytes);
  return kSuccess;
}

FRUGAL_STAND_IN int cublasGetVersion_v2(BlasHandle*, int* version) {
  if (version == nullptr) return kInvalidValue;
  *version = kVersion;
  return kSuccess;
}

// libraryPropertyType: 0 is the major, 1 the minor, 2 the patch version.
FRUGAL_STAND_IN int cublasGetProperty(int property, int* value) {
  if (value == nullptr || property < 0 || property > 2) return kInvalidValue;
  *value = property == 0 ? FRUGAL_SIM_CUDA_MAJOR : 0;
  return kSuccess;
}

FRUGAL_STAND_IN size_t cublasGetCudartVersion() { return size_t{FRUGAL_SIM_CUDA_MAJOR} * 1000; }

FRUGAL_STAND_IN const char* cublasGetStatusName(int status) {
  switch (status) {
    case kSuccess:
      return "CUBLAS_STATUS_SUCCESS";
    case kNotInitialized:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case kInvalidValue:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case kExecutionFailed:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case kNotSupported:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "unknown cublasStatus_t";
  }
}

FRUGAL_STAND_IN const char* cublasGetStatusString(int status) {
  return status == kNotSupported ? "not supported by the simulated GPU" : cublasGetStatusName(status);
}

// The routines that report on the host whether their arguments are right, with 0 for yes, beside their kernel.
#define REPORTING(t)                                                                                                   \
  FRUGAL_STAND_IN int cublas##t##geqrfBatched(BlasHandle* handle, int, int, void**, int, void**, int* info, int) {     \
    return ComputeAndReport(handle, info);                                                                             \
  }                                                                                                                    \
  FRUGAL_STAND_IN int cublas##t##getrsBatched(BlasHandle* handle, int, int, int, void**, int, const int*, void**, int, \
                                              int* info, int) {                                                        \
    return ComputeAndReport(handle, info);                                                                             \
  }                                                                                                                    \
  FRUGAL_STAND_IN int cublas##t##gelsBatched(BlasHandle* handle, int, int, int, int, void**, int, void**, int,         \
                                             int* info, int*, int) {                                                   \
    return ComputeAndReport(handle, info);                                                                             \
  }
REPORTING(S)
REPORTING(D)
REPORTING(C)
REPORTING(Z)

#define KERNEL(name) \
  FRUGAL_STAND_IN int name(BlasHandle* handle) { return handle == nullptr ? kNotInitialized : handle->Compute(); }
#define ACCEPTED(name) \
  FRUGAL_STAND_IN int name() { return kSuccess; }
#define UNSUPPORTED(name)      \
  FRUGAL_STAND_IN int name() { \
    ReportUnsupported(#name);  \
    return kNotSupported;      \
  }
#include "cuda/simulated/libraries/cublas_functions.inc"

}  // namespace frugal::sim
