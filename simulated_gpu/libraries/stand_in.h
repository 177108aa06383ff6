// What the stand-ins for NVIDIA's libraries share. A stand-in takes the place of a library that PyTorch calls
// (cuBLAS, cuBLASLt, cuDNN, cuFFT, cuSOLVER, cuSPARSE, NCCL): it keeps what a caller may ask back, puts one kernel on
// the caller's stream of the simulated GPU for each routine that would compute, and computes nothing. NCCL's also moves
// data from process to process.
//
// Each names its statuses in a Library, `kLibrary`, and what its handle points to `Handle`. Most functions need no code
// of their own. They are listed, by kind, in a *_functions.inc file, which the library's source includes last:
//   KERNEL(name)       takes the library's handle first; puts one kernel on the handle's stream
//   ACCEPTED(name)     succeeds and does nothing: it sets what nobody reads back here
//   UNSUPPORTED(name)  answers "not supported" in the library's own words, and its name is kept
// A routine of several number types stands there once: OF_CDSZ(KERNEL, cublas, axpy_v2) are four.
// A function of the list is declared without its further parameters: in the x86-64 and AArch64 C calling
// conventions the caller alone deals with those.
//
// The headers of the libraries are not needed: only opaque pointers, plain integers and the few structs declared here
// cross the interface, and those are the same in every CUDA 12 and 13.

#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <initializer_list>

#define FRUGAL_STAND_IN extern "C" __attribute__((visibility("default")))

#define KERNEL(name) \
  FRUGAL_STAND_IN int name(const Handle* handle) { return kLibrary.Compute(handle); }
#define ACCEPTED(name) \
  FRUGAL_STAND_IN int name() { return Library::kSuccess; }
#define UNSUPPORTED(name)                \
  FRUGAL_STAND_IN int name() {           \
    ReportUnsupported(#name);            \
    return kLibrary.not_supported.value; \
  }
// By BLAS's letters: complex, double, single, and complex double.
#define OF_CZ(KIND, library, routine) KIND(library##C##routine) KIND(library##Z##routine)
#define OF_DS(KIND, library, routine) KIND(library##D##routine) KIND(library##S##routine)
#define OF_CDSZ(KIND, library, routine) OF_CZ(KIND, library, routine) OF_DS(KIND, library, routine)

// The statuses of a library that names them as most do.
#define LIBRARY(prefix, uninitialized, invalid, failed, unsupported)                                     \
  constexpr Library kLibrary {                                                                           \
    {0, prefix "SUCCESS"}, {uninitialized, prefix "NOT_INITIALIZED"}, {invalid, prefix "INVALID_VALUE"}, \
        {failed, prefix "EXECUTION_FAILED"}, {                                                           \
      unsupported, prefix "NOT_SUPPORTED"                                                                \
    }                                                                                                    \
  }
// A function that says how much workspace a routine wants; its other parameters come before where to put that.
#define WORKSPACE(bytes, name, ...) \
  FRUGAL_STAND_IN int name(__VA_ARGS__, size_t* into) { return kLibrary.Give(bytes, into); }
// A function that makes what a program refers to by a pointer, and one that ends it.
#define OBJECT(Object, create, destroy)                                           \
  FRUGAL_STAND_IN int create(Object** object) { return kLibrary.Create(object); } \
  FRUGAL_STAND_IN int destroy(const Object* object) { return kLibrary.Destroy(object); }
// A function that sets something of the handle, and one that asks for it.
#define FIELD(type, field, set, get)                                                                          \
  FRUGAL_STAND_IN int set(Handle* handle, type value) { return kLibrary.Set(handle, &Handle::field, value); } \
  FRUGAL_STAND_IN int get(const Handle* handle, type* value) { return kLibrary.Get(handle, &Handle::field, value); }

namespace frugal::sim {

// cudaStream_t; null is the default stream.
using Stream = void*;

// A function's name, as a template takes it.
template <size_t kSize>
struct Name {
  // NOLINTNEXTLINE(google-explicit-constructor): so that the literal is the argument.
  consteval Name(const char (&name)[kSize]) { std::copy_n(name, kSize, text); }
  char text[kSize];
};

// Calls a function of CUDA's or of the simulated GPU's that is looked up at run time, so that one stand-in serves
// whichever CUDA runtime the program has loaded. -1 where it is not there.
template <Name kName, typename... Arguments>
int Ask(Arguments... arguments) {
  static const auto function = reinterpret_cast<int (*)(Arguments...)>(dlsym(RTLD_DEFAULT, kName.text));
  return function == nullptr ? -1 : function(arguments...);
}

// Puts one kernel on `stream`. False if the simulated GPU refuses it: no GPU is there, the stream's capture is
// invalid, or a fault plan says so.
bool LaunchKernel(Stream stream);

// Puts on `stream` that `bytes` at `memory` of the GPU's become zero: how a routine reports there that all went well.
// Nothing is done where `memory` is null. False as of LaunchKernel().
bool ClearMemory(void* memory, size_t bytes, Stream stream);

// Tells whoever observes the simulated GPU that the library has been given this memory to work in.
void NoteWorkspace(const void* memory, size_t bytes);

// Tells the simulated GPU that a function was called that is not simulated: it keeps the name, and under
// FRUGAL_SIM_VERBOSE=1 says it on stderr.
void ReportUnsupported(const char* function);

// The statuses that a library answers.
struct Library {
  static constexpr int kSuccess = 0;  // Of all of them.

  struct Status {
    int value;
    const char* name;
  };
  Status success;
  Status not_initialized;  // There is no handle.
  Status invalid_value;
  Status execution_failed;
  Status not_supported;

  const char* NameOf(int status) const {
    for (const Status& known : {success, not_initialized, invalid_value, execution_failed, not_supported}) {
      if (known.value == status) return known.name;
    }
    return "unknown status";
  }
  const char* TextOf(int status) const {
    return status == not_supported.value ? "not supported by the simulated GPU" : NameOf(status);
  }

  template <typename Value>
  int Give(Value value, Value* into) const {
    if (into == nullptr) return invalid_value.value;
    *into = value;
    return kSuccess;
  }
  template <typename Object>
  int Create(Object** object) const {
    if (object == nullptr) return invalid_value.value;
    *object = new Object;
    return kSuccess;
  }
  template <typename Object>
  int Destroy(const Object* object) const {
    delete object;
    return kSuccess;
  }
  template <typename Handle, typename Value>
  int Set(Handle* handle, Value Handle::*field, Value value) const {
    if (handle == nullptr) return not_initialized.value;
    handle->*field = value;
    return kSuccess;
  }
  template <typename Handle, typename Value>
  int Get(const Handle* handle, Value Handle::*field, Value* value) const {
    return handle == nullptr ? not_initialized.value : Give(handle->*field, value);
  }
  // `property` is a libraryPropertyType: the major, the minor or the patch version.
  int GiveProperty(int property, int major, int minor, int* value) const {
    if (property < 0 || property > 2) return invalid_value.value;
    return Give(property == 0 ? major : property == 1 ? minor : 0, value);
  }

  int ComputeOn(Stream stream) const { return LaunchKernel(stream) ? kSuccess : execution_failed.value; }
  template <typename Handle>
  int Compute(const Handle* handle) const {
    return handle == nullptr ? not_initialized.value : ComputeOn(handle->stream);
  }
  template <typename Handle>
  int ComputeIn(const void* workspace, size_t bytes, const Handle* handle) const {
    if (handle == nullptr) return not_initialized.value;
    NoteWorkspace(workspace, bytes);
    return ComputeOn(handle->stream);
  }
};

}  // namespace frugal::sim
