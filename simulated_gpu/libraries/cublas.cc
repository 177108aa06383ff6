// The stand-in for cuBLAS: see stand_in.h. Handles remember their stream and modes; a GEMM is one kernel.

#include <cstddef>

#include "simulated_gpu/libraries/stand_in.h"

namespace frugal::sim {
namespace {

// cublasStatus_t
LIBRARY("CUBLAS_STATUS_", 1, 7, 13, 15);

}  // namespace

// What cublasHandle_t points to. As with the real one, a handle belongs to one thread at a time.
struct Handle {
  Stream stream = nullptr;
  int math_mode = 0;
  int pointer_mode = 0;
  int atomics_mode = 0;
  int sm_count_target = 0;
};

namespace {

int ComputeAndReport(const Handle* handle, int* info) {
  const int given = kLibrary.Give(0, info);
  return given == Library::kSuccess ? kLibrary.Compute(handle) : given;
}

}  // namespace

OBJECT(Handle, cublasCreate_v2, cublasDestroy_v2)
FIELD(Stream, stream, cublasSetStream_v2, cublasGetStream_v2)
FIELD(int, math_mode, cublasSetMathMode, cublasGetMathMode)
FIELD(int, pointer_mode, cublasSetPointerMode_v2, cublasGetPointerMode_v2)
FIELD(int, atomics_mode, cublasSetAtomicsMode, cublasGetAtomicsMode)
FIELD(int, sm_count_target, cublasSetSmCountTarget, cublasGetSmCountTarget)

FRUGAL_STAND_IN int cublasSetWorkspace_v2(Handle* handle, void* workspace, size_t bytes) {
  if (handle == nullptr) return kLibrary.not_initialized.value;
  NoteWorkspace(workspace, bytes);
  return Library::kSuccess;
}

// The first release of the major version that this library is built as, in cuBLAS's own notation.
FRUGAL_STAND_IN int cublasGetVersion_v2(Handle*, int* version) {
  return kLibrary.Give(FRUGAL_SIM_CUDA_MAJOR * 10000, version);
}
FRUGAL_STAND_IN int cublasGetProperty(int property, int* value) {
  return kLibrary.GiveProperty(property, FRUGAL_SIM_CUDA_MAJOR, 0, value);
}
FRUGAL_STAND_IN size_t cublasGetCudartVersion() { return size_t{FRUGAL_SIM_CUDA_MAJOR} * 1000; }
FRUGAL_STAND_IN const char* cublasGetStatusName(int status) { return kLibrary.NameOf(status); }
FRUGAL_STAND_IN const char* cublasGetStatusString(int status) { return kLibrary.TextOf(status); }

// The routines that report on the host whether their arguments are right, with 0 for yes, beside their kernel.
#define REPORTING(t)                                                                                                  \
  FRUGAL_STAND_IN int cublas##t##geqrfBatched(Handle* handle, int, int, void**, int, void**, int* info, int) {        \
    return ComputeAndReport(handle, info);                                                                            \
  }                                                                                                                   \
  FRUGAL_STAND_IN int cublas##t##getrsBatched(Handle* handle, int, int, int, void**, int, const int*, void**, int,    \
                                              int* info, int) {                                                       \
    return ComputeAndReport(handle, info);                                                                            \
  }                                                                                                                   \
  FRUGAL_STAND_IN int cublas##t##gelsBatched(Handle* handle, int, int, int, int, void**, int, void**, int, int* info, \
                                             int*, int) {                                                             \
    return ComputeAndReport(handle, info);                                                                            \
  }
REPORTING(S)
REPORTING(D)
REPORTING(C)
REPORTING(Z)

#include "simulated_gpu/libraries/cublas_functions.inc"

}  // namespace frugal::sim
