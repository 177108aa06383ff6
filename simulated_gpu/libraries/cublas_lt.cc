// The stand-in for cuBLASLt: see stand_in.h. Descriptors are accepted and forgotten; a matrix product is one kernel on
// the stream that the call names.

#include <array>
#include <cstddef>
#include <cstdint>

#include "simulated_gpu/libraries/stand_in.h"

namespace frugal::sim {
namespace {

// cublasStatus_t
LIBRARY("CUBLAS_STATUS_", 1, 7, 13, 15);

}  // namespace

// Stands for a handle, a matrix layout, an operation and a preference alike; big enough for the opaque struct of each.
struct Descriptor {
  std::array<uint64_t, 64> opaque = {};
};

// cublasLtMatmulAlgo_t
struct MatmulAlgorithm {
  std::array<uint64_t, 8> opaque;
};

// cublasLtMatmulHeuristicResult_t
struct HeuristicResult {
  MatmulAlgorithm algorithm = {};
  size_t workspace_bytes = 0;
  int state = Library::kSuccess;
  float waves = 1;
  std::array<int, 4> reserved = {};
};
static_assert(sizeof(HeuristicResult) == 96);

OBJECT(Descriptor, cublasLtCreate, cublasLtDestroy)
OBJECT(Descriptor, cublasLtMatmulDescCreate, cublasLtMatmulDescDestroy)
OBJECT(Descriptor, cublasLtMatmulPreferenceCreate, cublasLtMatmulPreferenceDestroy)
OBJECT(Descriptor, cublasLtMatrixLayoutCreate, cublasLtMatrixLayoutDestroy)
OBJECT(Descriptor, cublasLtMatrixTransformDescCreate, cublasLtMatrixTransformDescDestroy)
OBJECT(Descriptor, cublasLtEmulationDescCreate, cublasLtEmulationDescDestroy)

// One algorithm, which needs no workspace, serves every product.
FRUGAL_STAND_IN int cublasLtMatmulAlgoGetHeuristic(Descriptor*, Descriptor*, Descriptor*, Descriptor*, Descriptor*,
                                                   Descriptor*, Descriptor*, int requested, HeuristicResult* results,
                                                   int* returned) {
  if (requested < 1 || results == nullptr) return kLibrary.invalid_value.value;
  results[0] = HeuristicResult();
  return kLibrary.Give(1, returned);
}

FRUGAL_STAND_IN int cublasLtMatmulAlgoCheck(Descriptor*, Descriptor*, Descriptor*, Descriptor*, Descriptor*,
                                            Descriptor*, const MatmulAlgorithm*, HeuristicResult* result) {
  return kLibrary.Give(HeuristicResult(), result);
}

FRUGAL_STAND_IN int cublasLtMatmul(Descriptor*, Descriptor*, const void*, const void*, Descriptor*, const void*,
                                   Descriptor*, const void*, const void*, Descriptor*, void*, Descriptor*,
                                   const MatmulAlgorithm*, void* workspace, size_t bytes, Stream stream) {
  NoteWorkspace(workspace, bytes);
  return kLibrary.ComputeOn(stream);
}

FRUGAL_STAND_IN int cublasLtMatrixTransform(Descriptor*, Descriptor*, const void*, const void*, Descriptor*,
                                            const void*, const void*, Descriptor*, void*, Descriptor*, Stream stream) {
  return kLibrary.ComputeOn(stream);
}

FRUGAL_STAND_IN size_t cublasLtGetVersion() { return size_t{FRUGAL_SIM_CUDA_MAJOR} * 10000; }
FRUGAL_STAND_IN size_t cublasLtGetCudartVersion() { return size_t{FRUGAL_SIM_CUDA_MAJOR} * 1000; }

FRUGAL_STAND_IN int cublasLtGetProperty(int property, int* value) {
  return kLibrary.GiveProperty(property, FRUGAL_SIM_CUDA_MAJOR, 0, value);
}
FRUGAL_STAND_IN const char* cublasLtGetStatusName(int status) { return kLibrary.NameOf(status); }
FRUGAL_STAND_IN const char* cublasLtGetStatusString(int status) { return kLibrary.TextOf(status); }

#include "simulated_gpu/libraries/cublas_lt_functions.inc"

}  // namespace frugal::sim
