// The stand-in for cuBLASLt: see stand_in.h. Descriptors are accepted and forgotten; a matrix product is one kernel on
// the stream that the call names.

#include <array>
#include <cstddef>
#include <cstdint>

#include "cuda/simulated/libraries/stand_in.h"

namespace frugal::sim {
namespace {

// cublasStatus_t
enum Status {
  kSuccess = 0,
  kInvalidValue = 7,
  kExecutionFailed = 13,
  kNotSupported = 15,
};

// Stands for a handle, a matrix layout, an operation and a preference alike; big enough for the opaque struct of each.
struct Descriptor {
  std::array<uint64_t, 64> opaque;
};

Status Create(Descriptor** descriptor) {
  if (descriptor == nullptr) return kInvalidValue;
  *descriptor = new Descriptor();
  return kSuccess;
}

Status Destroy(Descriptor* descriptor) {
  delete descriptor;
  return kSuccess;
}

Status Compute(Stream stream) { return LaunchKernel(stream) ? kSuccess : kExecutionFailed; }

}  // namespace

// cublasLtMatmulAlgo_t
struct MatmulAlgorithm {
  std::array<uint64_t, 8> opaque;
};

// cublasLtMatmulHeuristicResult_t
struct HeuristicResult {
  MatmulAlgorithm algorithm = {};
  size_t workspace_bytes = 0;
  int state = kSuccess;
  float waves = 1;
  std::array<int, 4> reserved = {};
};
static_assert(sizeof(HeuristicResult) == 96);

FRUGAL_STAND_IN int cublasLtCreate(Descriptor** handle) { return Create(handle); }
FRUGAL_STAND_IN int cublasLtDestroy(Descriptor* handle) { return Destroy(handle); }
FRUGAL_STAND_IN int cublasLtMatmulDescCreate(Descriptor** descriptor) { return Create(descriptor); }
FRUGAL_STAND_IN int cublasLtMatmulDescDestroy(Descriptor* descriptor) { return Destroy(descriptor); }
FRUGAL_STAND_IN int cublasLtMatmulPreferenceCreate(Descriptor** descriptor) { return Create(descriptor); }
FRUGAL_STAND_IN int cublasLtMatmulPreferenceDestroy(Descriptor* descriptor) { return Destroy(descriptor); }
FRUGAL_STAND_IN int cublasLtMatrixLayoutCreate(Descriptor** descriptor) { return Create(descriptor); }
FRUGAL_STAND_IN int cublasLtMatrixLayoutDestroy(Descriptor* descriptor) { return Destroy(descriptor); }
FRUGAL_STAND_IN int cublasLtMatrixTransformDescCreate(Descriptor** descriptor) { return Create(descriptor); }
FRUGAL_STAND_IN int cublasLtMatrixTransformDescDestroy(Descriptor* descriptor) { return Destroy(descriptor); }
FRUGAL_STAND_IN int cublasLtEmulationDescCreate(Descriptor** descriptor) { return Create(descriptor); }
FRUGAL_STAND_IN int cublasLtEmulationDescDestroy(Descriptor* descriptor) { return Destroy(descriptor); }

// One algorithm, which needs no workspace, serves every product.
FRUGAL_STAND_IN int cublasLtMatmulAlgoGetHeuristic(Descriptor*, Descriptor*, Descriptor*, Descriptor*, Descriptor*,
                                                   Descriptor*, Descriptor*, int requested, HeuristicResult* results,
                                                   int* returned) {
  if (requested < 1 || results == nullptr || returned == nullptr) return kInvalidValue;
  results[0] = HeuristicResult();
  *returned = 1;
  return kSuccess;
}

FRUGAL_STAND_IN int cublasLtMatmulAlgoCheck(Descriptor*, Descriptor*, Descriptor*, Descriptor*, Descriptor*,
                                            Descriptor*, const MatmulAlgorithm*, HeuristicResult* result) {
  if (result == nullptr) return kInvalidValue;
  *result = HeuristicResult();
  return kSuccess;
}

FRUGAL_STAND_IN int cublasLtMatmul(Descriptor*, Descriptor*, const void*, const void*, Descriptor*, const void*,
                                   Descriptor*, const void*, const void*, Descriptor*, void*, Descriptor*,
                                   const MatmulAlgorithm*, void* workspace, size_t bytes, Stream stream) {
  NoteWorkspace(workspace, bytes);
  return Compute(stream);
}

FRUGAL_STAND_IN int cublasLtMatrixTransform(Descriptor*, Descriptor*, const void*, const void*, Descriptor*,
                                            const void*, const void*, Descriptor*, void*, Descriptor*, Stream stream) {
  return Compute(stream);
}

FRUGAL_STAND_IN size_t cublasLtGetVersion() { return size_t{FRUGAL_SIM_CUDA_MAJOR} * 10000; }
FRUGAL_STAND_IN size_t cublasLtGetCudartVersion() { return size_t{FRUGAL_SIM_CUDA_MAJOR} * 1000; }

// libraryPropertyType: 0 is the major, 1 the minor, 2 the patch version.
FRUGAL_STAND_IN int cublasLtGetProperty(int property, int* value) {
  if (value == nullptr || property < 0 || property > 2) return kInvalidValue;
  *value = property == 0 ? FRUGAL_SIM_CUDA_MAJOR : 0;
  return kSuccess;
}

FRUGAL_STAND_IN const char* cublasLtGetStatusName(int status) {
  switch (status) {
    case kSuccess:
      return "CUBLAS_STATUS_SUCCESS";
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

FRUGAL_STAND_IN const char* cublasLtGetStatusString(int status) {
  return status == kNotSupported ? "not supported by the simulated GPU" : cublasLtGetStatusName(status);
}

#define ACCEPTED(name) \
  FRUGAL_STAND_IN int name() { return kSuccess; }
#define UNSUPPORTED(name)      \
  FRUGAL_STAND_IN int name() { \
    ReportUnsupported(#name);  \
    return kNotSupported;      \
  }
#include "cuda/simulated/libraries/cublas_lt_functions.inc"

}  // namespace frugal::sim
