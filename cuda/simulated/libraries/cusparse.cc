// The stand-in for cuSPARSE: see stand_in.h. A handle remembers its stream, a sparse matrix its size; a product, a
// solution or a conversion is one kernel. Of a product or sum of sparse matrices, whose entries would have to be
// counted, the result is said to have as many as the operand with more of them.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cuda/simulated/libraries/stand_in.h"

namespace frugal::sim {
namespace {

// cusparseStatus_t
enum Status {
  kSuccess = 0,
  kNotInitialized = 1,
  kInvalidValue = 3,
  kExecutionFailed = 6,
  kNotSupported = 10,
};

// Of a routine that asks its caller for any: real ones want some bytes for each row, or for each entry, of what they
// take. A round figure.
constexpr size_t kWorkspaceBytes = 64 << 10;

// A descriptor that is filled in and never read here.
struct Opaque {};

// cusparseSpMatDescr_t
struct SparseMatrix {
  int64_t rows = 0, columns = 0, entries = 0;
};

template <typename Object>
Status Create(Object** object) {
  if (object == nullptr) return kInvalidValue;
  *object = new Object;
  return kSuccess;
}

template <typename Object>
Status Destroy(const Object* object) {
  delete object;
  return kSuccess;
}

template <typename Value>
Status Give(Value value, Value* into) {
  if (into == nullptr) return kInvalidValue;
  *into = value;
  return kSuccess;
}

Status CreateSparse(int64_t rows, int64_t columns, int64_t entries, SparseMatrix** matrix) {
  if (matrix == nullptr) return kInvalidValue;
  *matrix = new SparseMatrix{rows, columns, entries};
  return kSuccess;
}

}  // namespace

// What cusparseHandle_t points to. As with the real one, a handle belongs to one thread at a time.
struct SparseHandle {
  Stream stream = nullptr;

  Status Compute() const { return LaunchKernel(stream) ? kSuccess : kExecutionFailed; }
  Status ComputeIn(const void* workspace) const {
    NoteWorkspace(workspace, kWorkspaceBytes);
    return Compute();
  }
};

FRUGAL_STAND_IN int cusparseCreate(SparseHandle** handle) { return Create(handle); }
FRUGAL_STAND_IN int cusparseDestroy(SparseHandle* handle) { return Destroy(handle); }

FRUGAL_STAND_IN int cusparseSetStream(SparseHandle* handle, Stream stream) {
  if (handle == nullptr) return kNotInitialized;
  handle->stream = stream;
  return kSuccess;
}

FRUGAL_STAND_IN int cusparseGetStream(SparseHandle* handle, Stream* stream) {
  return handle == nullptr ? kNotInitialized : Give(handle->stream, stream);
}

FRUGAL_STAND_IN int cusparseGetVersion(SparseHandle*, int* version) { return Give(12000, version); }

// --- Descriptors.

FRUGAL_STAND_IN int cusparseCreateCoo(SparseMatrix** matrix, int64_t rows, int64_t columns, int64_t entries) {
  return CreateSparse(rows, columns, entries, matrix);
}
FRUGAL_STAND_IN int cusparseCreateCsr(SparseMatrix** matrix, int64_t rows, int64_t columns, int64_t entries) {
  return CreateSparse(rows, columns, entries, matrix);
}
FRUGAL_STAND_IN int cusparseCreateCsc(SparseMatrix** matrix, int64_t rows, int64_t columns, int64_t entries) {
  return CreateSparse(rows, columns, entries, matrix);
}
FRUGAL_STAND_IN int cusparseDestroySpMat(SparseMatrix* matrix) { return Destroy(matrix); }

FRUGAL_STAND_IN int cusparseSpMatGetSize(const SparseMatrix* matrix, int64_t* rows, int64_t* columns,
                                         int64_t* entries) {
  if (matrix == nullptr || rows == nullptr || columns == nullptr || entries == nullptr) return kInvalidValue;
  *rows = matrix->rows;
  *columns = matrix->columns;
  *entries = matrix->entries;
  return kSuccess;
}

#define DESCRIPTOR(what)                                                                       \
  FRUGAL_STAND_IN int cusparseCreate##what(Opaque** descriptor) { return Create(descriptor); } \
  FRUGAL_STAND_IN int cusparseDestroy##what(Opaque* descriptor) { return Destroy(descriptor); }
DESCRIPTOR(Bsrsm2Info)
DESCRIPTOR(Bsrsv2Info)
DESCRIPTOR(DnMat)
DESCRIPTOR(DnVec)
DESCRIPTOR(MatDescr)

#define ROUTINE_DESCRIPTOR(what)                                                                       \
  FRUGAL_STAND_IN int cusparse##what##_createDescr(Opaque** descriptor) { return Create(descriptor); } \
  FRUGAL_STAND_IN int cusparse##what##_destroyDescr(Opaque* descriptor) { return Destroy(descriptor); }
ROUTINE_DESCRIPTOR(SpGEMM)
ROUTINE_DESCRIPTOR(SpSM)
ROUTINE_DESCRIPTOR(SpSV)

// --- How much workspace a routine wants.

FRUGAL_STAND_IN int cusparseSpMM_bufferSize(SparseHandle*, int, int, const void*, const SparseMatrix*, const Opaque*,
                                            const void*, const Opaque*, int, int, size_t* bytes) {
  return Give(kWorkspaceBytes, bytes);
}
FRUGAL_STAND_IN int cusparseSpMV_bufferSize(SparseHandle*, int, const void*, const SparseMatrix*, const Opaque*,
                                            const void*, const Opaque*, int, int, size_t* bytes) {
  return Give(kWorkspaceBytes, bytes);
}
FRUGAL_STAND_IN int cusparseSDDMM_bufferSize(SparseHandle*, int, int, const void*, const Opaque*, const Opaque*,
                                             const void*, const SparseMatrix*, int, int, size_t* bytes) {
  return Give(kWorkspaceBytes, bytes);
}
FRUGAL_STAND_IN int cusparseSpSM_bufferSize(SparseHandle*, int, int, const void*, const SparseMatrix*, const Opaque*,
                                            const Opaque*, int, int, Opaque*, size_t* bytes) {
  return Give(kWorkspaceBytes, bytes);
}
FRUGAL_STAND_IN int cusparseSpSV_bufferSize(SparseHandle*, int, const void*, const SparseMatrix*, const Opaque*,
                                            const Opaque*, int, int, Opaque*, size_t* bytes) {
  return Give(kWorkspaceBytes, bytes);
}
FRUGAL_STAND_IN int cusparseXcoosort_bufferSizeExt(SparseHandle*, int, int, int, const int*, const int*,
                                                   size_t* bytes) {
  return Give(kWorkspaceBytes, bytes);
}
FRUGAL_STAND_IN int cusparseXcsrsort_bufferSizeExt(SparseHandle*, int, int, int, const int*, const int*,
                                                   size_t* bytes) {
  return Give(kWorkspaceBytes, bytes);
}

// --- Products with dense matrices.

FRUGAL_STAND_IN int cusparseSpMM(SparseHandle* handle, int, int, const void*, const SparseMatrix*, const Opaque*,
                                 const void*, const Opaque*, int, int, void* workspace) {
  return handle == nullptr ? kNotInitialized : handle->ComputeIn(workspace);
}
FRUGAL_STAND_IN int cusparseSpMV(SparseHandle* handle, int, const void*, const SparseMatrix*, const Opaque*,
                                 const void*, const Opaque*, int, int, void* workspace) {
  return handle == nullptr ? kNotInitialized : handle->ComputeIn(workspace);
}
FRUGAL_STAND_IN int cusparseSDDMM(SparseHandle* handle, int, int, const void*, const Opaque*, const Opaque*,
                                  const void*, const SparseMatrix*, int, int, void* workspace) {
  return handle == nullptr ? kNotInitialized : handle->ComputeIn(workspace);
}

// --- Products and sums of sparse matrices.

FRUGAL_STAND_IN int cusparseSpGEMM_workEstimation(SparseHandle* handle, int, int, const void*, const SparseMatrix*,
                                                  const SparseMatrix*, const void*, SparseMatrix*, int, int, Opaque*,
                                                  size_t* bytes, void* workspace) {
  if (handle == nullptr) return kNotInitialized;
  return workspace == nullptr ? Give(kWorkspaceBytes, bytes) : handle->ComputeIn(workspace);
}

FRUGAL_STAND_IN int cusparseSpGEMM_compute(SparseHandle* handle, int, int, const void*, const SparseMatrix* left,
                                           const SparseMatrix* right, const void*, SparseMatrix* product, int, int,
                                           Opaque*, size_t* bytes, void* workspace) {
  if (handle == nullptr) return kNotInitialized;
  if (left == nullptr || right == nullptr || product == nullptr) return kInvalidValue;
  if (workspace == nullptr) return Give(kWorkspaceBytes, bytes);
  product->entries = std::min(product->rows * product->columns, std::max(left->entries, right->entries));
  return handle->ComputeIn(workspace);
}

FRUGAL_STAND_IN int cusparseXcsrgeam2Nnz(SparseHandle* handle, int, int, const Opaque*, int left_entries, const int*,
                                         const int*, const Opaque*, int right_entries, const int*, const int*,
                                         const Opaque*, int*, int* entries, void*) {
  if (handle == nullptr) return kNotInitialized;
  const Status given = Give(std::max(left_entries, right_entries), entries);
  return given == kSuccess ? handle->Compute() : given;
}

// --- The routines of one number type each.

#define TYPED(t)                                                                                                      \
  FRUGAL_STAND_IN int cusparse##t##bsrsm2_bufferSize(SparseHandle*, int, int, int, int, int, int, const Opaque*,      \
                                                     const void*, const int*, const int*, int, Opaque*, int* bytes) { \
    return Give(static_cast<int>(kWorkspaceBytes), bytes);                                                            \
  }                                                                                                                   \
  FRUGAL_STAND_IN int cusparse##t##bsrsv2_bufferSize(SparseHandle*, int, int, int, int, const Opaque*, const void*,   \
                                                     const int*, const int*, int, Opaque*, int* bytes) {              \
    return Give(static_cast<int>(kWorkspaceBytes), bytes);                                                            \
  }                                                                                                                   \
  FRUGAL_STAND_IN int cusparse##t##csrgeam2_bufferSizeExt(                                                            \
      SparseHandle*, int, int, const void*, const Opaque*, int, const void*, const int*, const int*, const void*,     \
      const Opaque*, int, const void*, const int*, const int*, const Opaque*, const void*, const int*, const int*,    \
      size_t* bytes) {                                                                                                \
    return Give(kWorkspaceBytes, bytes);                                                                              \
  }
TYPED(S)
TYPED(D)
TYPED(C)
TYPED(Z)

// The pivot at which a block solution failed: none.
FRUGAL_STAND_IN int cusparseXbsrsm2_zeroPivot(SparseHandle*, Opaque*, int* position) { return Give(-1, position); }
FRUGAL_STAND_IN int cusparseXbsrsv2_zeroPivot(SparseHandle*, Opaque*, int* position) { return Give(-1, position); }

FRUGAL_STAND_IN const char* cusparseGetErrorName(int status) {
  switch (status) {
    case kSuccess:
      return "CUSPARSE_STATUS_SUCCESS";
    case kNotInitialized:
      return "CUSPARSE_STATUS_NOT_INITIALIZED";
    case kInvalidValue:
      return "CUSPARSE_STATUS_INVALID_VALUE";
    case kExecutionFailed:
      return "CUSPARSE_STATUS_EXECUTION_FAILED";
    case kNotSupported:
      return "CUSPARSE_STATUS_NOT_SUPPORTED";
    default:
      return "unknown cusparseStatus_t";
  }
}

FRUGAL_STAND_IN const char* cusparseGetErrorString(int status) {
  return status == kNotSupported ? "not supported by the simulated GPU" : cusparseGetErrorName(status);
}

#define KERNEL(name) \
  FRUGAL_STAND_IN int name(SparseHandle* handle) { return handle == nullptr ? kNotInitialized : handle->Compute(); }
#define ACCEPTED(name) \
  FRUGAL_STAND_IN int name() { return kSuccess; }
#define UNSUPPORTED(name)      \
  FRUGAL_STAND_IN int name() { \
    ReportUnsupported(#name);  \
    return kNotSupported;      \
  }
#include "cuda/simulated/libraries/cusparse_functions.inc"

}  // namespace frugal::sim
