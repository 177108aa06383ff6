// The stand-in for cuSPARSE: see stand_in.h. A handle remembers its stream, a sparse matrix its size; a product, a
// solution or a conversion is one kernel. Of a product or sum of sparse matrices, whose entries would have to be
// counted, the result is said to have as many as the operand with more of them.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "simulated_gpu/libraries/stand_in.h"

namespace frugal::sim {
namespace {

// cusparseStatus_t
LIBRARY("CUSPARSE_STATUS_", 1, 3, 6, 10);

// Of a routine that asks its caller for any: real ones want some bytes for each row, or for each entry, of what they
// take. A round figure.
constexpr size_t kWorkspaceBytes = 64 << 10;

// A descriptor that is filled in and never read here.
struct Opaque {};

// cusparseSpMatDescr_t
struct SparseMatrix {
  int64_t rows = 0, columns = 0, entries = 0;
};

}  // namespace

// What cusparseHandle_t points to. As with the real one, a handle belongs to one thread at a time.
struct Handle {
  Stream stream = nullptr;
};

OBJECT(Handle, cusparseCreate, cusparseDestroy)
FIELD(Stream, stream, cusparseSetStream, cusparseGetStream)

FRUGAL_STAND_IN int cusparseGetVersion(Handle*, int* version) { return kLibrary.Give(12000, version); }

// --- Descriptors.

#define SPARSE_MATRIX(layout)                                                                                         \
  FRUGAL_STAND_IN int cusparseCreate##layout(SparseMatrix** matrix, int64_t rows, int64_t columns, int64_t entries) { \
    const int created = kLibrary.Create(matrix);                                                                      \
    if (created == Library::kSuccess) **matrix = {rows, columns, entries};                                            \
    return created;                                                                                                   \
  }
SPARSE_MATRIX(Coo)
SPARSE_MATRIX(Csr)
SPARSE_MATRIX(Csc)

FRUGAL_STAND_IN int cusparseDestroySpMat(const SparseMatrix* matrix) { return kLibrary.Destroy(matrix); }

FRUGAL_STAND_IN int cusparseSpMatGetSize(const SparseMatrix* matrix, int64_t* rows, int64_t* columns,
                                         int64_t* entries) {
  if (matrix == nullptr || rows == nullptr || columns == nullptr || entries == nullptr) {
    return kLibrary.invalid_value.value;
  }
  *rows = matrix->rows;
  *columns = matrix->columns;
  *entries = matrix->entries;
  return Library::kSuccess;
}

OBJECT(Opaque, cusparseCreateBsrsm2Info, cusparseDestroyBsrsm2Info)
OBJECT(Opaque, cusparseCreateBsrsv2Info, cusparseDestroyBsrsv2Info)
OBJECT(Opaque, cusparseCreateDnMat, cusparseDestroyDnMat)
OBJECT(Opaque, cusparseCreateDnVec, cusparseDestroyDnVec)
OBJECT(Opaque, cusparseCreateMatDescr, cusparseDestroyMatDescr)
OBJECT(Opaque, cusparseSpGEMM_createDescr, cusparseSpGEMM_destroyDescr)
OBJECT(Opaque, cusparseSpSM_createDescr, cusparseSpSM_destroyDescr)
OBJECT(Opaque, cusparseSpSV_createDescr, cusparseSpSV_destroyDescr)

// --- How much workspace a routine wants.

WORKSPACE(kWorkspaceBytes, cusparseSpMM_bufferSize, Handle*, int, int, const void*, const SparseMatrix*, const Opaque*,
          const void*, const Opaque*, int, int)
WORKSPACE(kWorkspaceBytes, cusparseSpMV_bufferSize, Handle*, int, const void*, const SparseMatrix*, const Opaque*,
          const void*, const Opaque*, int, int)
WORKSPACE(kWorkspaceBytes, cusparseSDDMM_bufferSize, Handle*, int, int, const void*, const Opaque*, const Opaque*,
          const void*, const SparseMatrix*, int, int)
WORKSPACE(kWorkspaceBytes, cusparseSpSM_bufferSize, Handle*, int, int, const void*, const SparseMatrix*, const Opaque*,
          const Opaque*, int, int, Opaque*)
WORKSPACE(kWorkspaceBytes, cusparseSpSV_bufferSize, Handle*, int, const void*, const SparseMatrix*, const Opaque*,
          const Opaque*, int, int, Opaque*)
WORKSPACE(kWorkspaceBytes, cusparseXcoosort_bufferSizeExt, Handle*, int, int, int, const int*, const int*)
WORKSPACE(kWorkspaceBytes, cusparseXcsrsort_bufferSizeExt, Handle*, int, int, int, const int*, const int*)

// --- Products with dense matrices.

FRUGAL_STAND_IN int cusparseSpMM(Handle* handle, int, int, const void*, const SparseMatrix*, const Opaque*, const void*,
                                 const Opaque*, int, int, void* workspace) {
  return kLibrary.ComputeIn(workspace, kWorkspaceBytes, handle);
}
FRUGAL_STAND_IN int cusparseSpMV(Handle* handle, int, const void*, const SparseMatrix*, const Opaque*, const void*,
                                 const Opaque*, int, int, void* workspace) {
  return kLibrary.ComputeIn(workspace, kWorkspaceBytes, handle);
}
FRUGAL_STAND_IN int cusparseSDDMM(Handle* handle, int, int, const void*, const Opaque*, const Opaque*, const void*,
                                  const SparseMatrix*, int, int, void* workspace) {
  return kLibrary.ComputeIn(workspace, kWorkspaceBytes, handle);
}

// --- Products and sums of sparse matrices.

namespace {

// Such a routine is called twice: without a workspace, it says how much it wants.
int AskOrCompute(const Handle* handle, size_t* bytes, const void* workspace) {
  if (handle != nullptr && workspace == nullptr) return kLibrary.Give(kWorkspaceBytes, bytes);
  return kLibrary.ComputeIn(workspace, kWorkspaceBytes, handle);
}

}  // namespace

FRUGAL_STAND_IN int cusparseSpGEMM_workEstimation(Handle* handle, int, int, const void*, const SparseMatrix*,
                                                  const SparseMatrix*, const void*, SparseMatrix*, int, int, Opaque*,
                                                  size_t* bytes, void* workspace) {
  return AskOrCompute(handle, bytes, workspace);
}

FRUGAL_STAND_IN int cusparseSpGEMM_compute(Handle* handle, int, int, const void*, const SparseMatrix* left,
                                           const SparseMatrix* right, const void*, SparseMatrix* product, int, int,
                                           Opaque*, size_t* bytes, void* workspace) {
  if (left == nullptr || right == nullptr || product == nullptr) return kLibrary.invalid_value.value;
  if (workspace != nullptr) {
    product->entries = std::min(product->rows * product->columns, std::max(left->entries, right->entries));
  }
  return AskOrCompute(handle, bytes, workspace);
}

FRUGAL_STAND_IN int cusparseXcsrgeam2Nnz(Handle* handle, int, int, const Opaque*, int left_entries, const int*,
                                         const int*, const Opaque*, int right_entries, const int*, const int*,
                                         const Opaque*, int*, int* entries, void*) {
  const int given = kLibrary.Give(std::max(left_entries, right_entries), entries);
  return given == Library::kSuccess ? kLibrary.Compute(handle) : given;
}

// --- The routines of one number type each.

#define TYPED(t)                                                                                                      \
  FRUGAL_STAND_IN int cusparse##t##bsrsm2_bufferSize(Handle*, int, int, int, int, int, int, const Opaque*,            \
                                                     const void*, const int*, const int*, int, Opaque*, int* bytes) { \
    return kLibrary.Give(static_cast<int>(kWorkspaceBytes), bytes);                                                   \
  }                                                                                                                   \
  FRUGAL_STAND_IN int cusparse##t##bsrsv2_bufferSize(Handle*, int, int, int, int, const Opaque*, const void*,         \
                                                     const int*, const int*, int, Opaque*, int* bytes) {              \
    return kLibrary.Give(static_cast<int>(kWorkspaceBytes), bytes);                                                   \
  }                                                                                                                   \
  FRUGAL_STAND_IN int cusparse##t##csrgeam2_bufferSizeExt(                                                            \
      Handle*, int, int, const void*, const Opaque*, int, const void*, const int*, const int*, const void*,           \
      const Opaque*, int, const void*, const int*, const int*, const Opaque*, const void*, const int*, const int*,    \
      size_t* bytes) {                                                                                                \
    return kLibrary.Give(kWorkspaceBytes, bytes);                                                                     \
  }
TYPED(S)
TYPED(D)
TYPED(C)
TYPED(Z)

// The pivot at which a block solution failed: none.
FRUGAL_STAND_IN int cusparseXbsrsm2_zeroPivot(Handle*, Opaque*, int* position) { return kLibrary.Give(-1, position); }
FRUGAL_STAND_IN int cusparseXbsrsv2_zeroPivot(Handle*, Opaque*, int* position) { return kLibrary.Give(-1, position); }

FRUGAL_STAND_IN const char* cusparseGetErrorName(int status) { return kLibrary.NameOf(status); }
FRUGAL_STAND_IN const char* cusparseGetErrorString(int status) { return kLibrary.TextOf(status); }

#include "simulated_gpu/libraries/cusparse_functions.inc"

}  // namespace frugal::sim
