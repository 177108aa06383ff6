// The stand-in for cuSOLVER's dense part: see stand_in.h. A handle remembers its stream; a routine is one kernel, and
// reports that it succeeded. Workspaces have the sizes that LAPACK documents for the same routine, in blocks of 32
// columns: those of the real library are not documented.

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>

#include "simulated_gpu/libraries/stand_in.h"

namespace frugal::sim {
namespace {

// cusolverStatus_t
LIBRARY("CUSOLVER_STATUS_", 1, 3, 6, 9);

// A descriptor that is filled in and never read here.
struct Opaque {};

// --- Elements of workspace.

constexpr int64_t kBlock = 32;

int64_t Panel(int64_t columns) { return kBlock * std::max<int64_t>(columns, 1); }

// An eigenvalue decomposition by divide and conquer, LAPACK's syevd.
int64_t Eigenvalues(int64_t n) { return 1 + 6 * n + 2 * n * n; }

// The singular values of m x n, LAPACK's gesdd with the vectors of the smaller side.
int64_t SingularValues(int64_t m, int64_t n) {
  const int64_t smaller = std::min(m, n);
  return 4 * smaller * smaller + 7 * smaller + std::max(m, n);
}

template <typename Count>
int Give(int64_t elements, Count* into) {
  return kLibrary.Give(static_cast<Count>(elements), into);
}

// The 64-bit routines ask in bytes, and for memory of the host, too.
int GiveBytes(int64_t elements, int data_type, size_t* on_device, size_t* on_host) {
  const int64_t element = data_type == 0 ? 4 : data_type == 5 ? 16 : 8;  // cudaDataType: CUDA_R_32F, CUDA_C_64F
  if (on_host != nullptr) *on_host = 0;
  return Give(elements * element, on_device);
}

}  // namespace

// What cusolverDnHandle_t points to. As with the real one, a handle belongs to one thread at a time.
struct Handle {
  Stream stream = nullptr;
};

namespace {

// The routine's kernel; each of its reports at `info`, in the GPU's memory, becomes 0: success.
int Compute(const Handle* handle, int* info, int64_t reports = 1) {
  const int computed = kLibrary.Compute(handle);
  if (computed != Library::kSuccess) return computed;
  const bool reported = ClearMemory(info, static_cast<size_t>(reports) * sizeof(int), handle->stream);
  return reported ? Library::kSuccess : kLibrary.execution_failed.value;
}

int ComputeIn(void* workspace, size_t bytes, const Handle* handle, int* info, int64_t reports = 1) {
  NoteWorkspace(workspace, bytes);
  return Compute(handle, info, reports);
}

}  // namespace

OBJECT(Handle, cusolverDnCreate, cusolverDnDestroy)
FIELD(Stream, stream, cusolverDnSetStream, cusolverDnGetStream)
OBJECT(Opaque, cusolverDnCreateGesvdjInfo, cusolverDnDestroyGesvdjInfo)
OBJECT(Opaque, cusolverDnCreateParams, cusolverDnDestroyParams)
OBJECT(Opaque, cusolverDnCreateSyevjInfo, cusolverDnDestroySyevjInfo)

FRUGAL_STAND_IN int cusolverGetVersion(int* version) {
  return Give(int64_t{FRUGAL_SIM_CUDA_MAJOR - 1} * 1000, version);
}

// --- The routines of one number type each: S, D, C and Z.

#define JOIN(type, routine, suffix) cusolverDn##type##routine##suffix
#define EXPAND(type, routine, suffix) JOIN(type, routine, suffix)
#define ROUTINE(routine, suffix) EXPAND(TYPE, routine, suffix)
#define NOTE(work, elements) NoteWorkspace(work, static_cast<size_t>(elements) * sizeof(ELEMENT))
#define ORGQR orgqr
#define ORMQR ormqr
#define SYEVD syevd
#define SYEVJ syevj
#define TYPE S
#define ELEMENT float
#include "simulated_gpu/libraries/cusolver_typed.inc"
#define TYPE D
#define ELEMENT double
#include "simulated_gpu/libraries/cusolver_typed.inc"
#undef ORGQR
#undef ORMQR
#undef SYEVD
#undef SYEVJ
#define ORGQR ungqr
#define ORMQR unmqr
#define SYEVD heevd
#define SYEVJ heevj
#define TYPE C
#define ELEMENT std::complex<float>
#include "simulated_gpu/libraries/cusolver_typed.inc"
#define TYPE Z
#define ELEMENT std::complex<double>
#include "simulated_gpu/libraries/cusolver_typed.inc"

// --- The 64-bit routines, of any number type.

FRUGAL_STAND_IN int cusolverDnXgeqrf_bufferSize(Handle*, Opaque*, int64_t, int64_t n, int type, const void*, int64_t,
                                                int, const void*, int, size_t* on_device, size_t* on_host) {
  return GiveBytes(Panel(n), type, on_device, on_host);
}
FRUGAL_STAND_IN int cusolverDnXgeqrf(Handle* handle, Opaque*, int64_t, int64_t, int, void*, int64_t, int, void*, int,
                                     void* work, size_t bytes, void*, size_t, int* info) {
  return ComputeIn(work, bytes, handle, info);
}

FRUGAL_STAND_IN int cusolverDnXpotrf_bufferSize(Handle*, Opaque*, int, int64_t n, int type, const void*, int64_t, int,
                                                size_t* on_device, size_t* on_host) {
  return GiveBytes(Panel(n), type, on_device, on_host);
}
FRUGAL_STAND_IN int cusolverDnXpotrf(Handle* handle, Opaque*, int, int64_t, int, void*, int64_t, int, void* work,
                                     size_t bytes, void*, size_t, int* info) {
  return ComputeIn(work, bytes, handle, info);
}
FRUGAL_STAND_IN int cusolverDnXpotrs(Handle* handle, Opaque*, int, int64_t, int64_t, int, const void*, int64_t, int,
                                     void*, int64_t, int* info) {
  return Compute(handle, info);
}

FRUGAL_STAND_IN int cusolverDnXsyevd_bufferSize(Handle*, Opaque*, int, int, int64_t n, int type, const void*, int64_t,
                                                int, const void*, int, size_t* on_device, size_t* on_host) {
  return GiveBytes(Eigenvalues(n), type, on_device, on_host);
}
FRUGAL_STAND_IN int cusolverDnXsyevd(Handle* handle, Opaque*, int, int, int64_t, int, void*, int64_t, int, void*, int,
                                     void* work, size_t bytes, void*, size_t, int* info) {
  return ComputeIn(work, bytes, handle, info);
}
FRUGAL_STAND_IN int cusolverDnXsyevBatched_bufferSize(Handle*, Opaque*, int, int, int64_t n, int type, const void*,
                                                      int64_t, int, const void*, int, size_t* on_device,
                                                      size_t* on_host, int64_t batch) {
  return GiveBytes(Eigenvalues(n) * batch, type, on_device, on_host);
}
FRUGAL_STAND_IN int cusolverDnXsyevBatched(Handle* handle, Opaque*, int, int, int64_t, int, void*, int64_t, int, void*,
                                           int, void* work, size_t bytes, void*, size_t, int* info, int64_t batch) {
  return ComputeIn(work, bytes, handle, info, batch);
}

// LAPACK's geev wants four times the side, besides the blocks of the reduction to Hessenberg form.
FRUGAL_STAND_IN int cusolverDnXgeev_bufferSize(Handle*, Opaque*, int, int, int64_t n, int type, const void*, int64_t,
                                               int, const void*, int, const void*, int64_t, int, const void*, int64_t,
                                               int, size_t* on_device, size_t* on_host) {
  return GiveBytes(Panel(n) + 4 * n, type, on_device, on_host);
}
FRUGAL_STAND_IN int cusolverDnXgeev(Handle* handle, Opaque*, int, int, int64_t, int, void*, int64_t, int, void*, int,
                                    void*, int64_t, int, void*, int64_t, int, void*, size_t, void*, size_t, int* info) {
  return Compute(handle, info);
}

FRUGAL_STAND_IN int cusolverDnXsytrs_bufferSize(Handle*, int, int64_t n, int64_t, int type, const void*, int64_t,
                                                const int64_t*, int, void*, int64_t, size_t* on_device,
                                                size_t* on_host) {
  return GiveBytes(Panel(n), type, on_device, on_host);
}
FRUGAL_STAND_IN int cusolverDnXsytrs(Handle* handle, int, int64_t, int64_t, int, const void*, int64_t, const int64_t*,
                                     int, void*, int64_t, void* work, size_t bytes, void*, size_t, int* info) {
  return ComputeIn(work, bytes, handle, info);
}

#include "simulated_gpu/libraries/cusolver_functions.inc"

}  // namespace frugal::sim
