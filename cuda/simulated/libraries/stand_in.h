// What the stand-ins for NVIDIA's libraries share. A stand-in takes the place of a library that PyTorch calls
// (cuBLAS, cuBLASLt, cuDNN, cuFFT, cuSOLVER, cuSPARSE, NCCL): it keeps what a caller may ask back, puts one kernel on
// the caller's stream of the simulated GPU for each routine that would compute, and computes nothing. NCCL's also moves
// data from process to process.
//
// Most functions need no code of their own. They are listed, by kind, in a *_functions.inc file that the library's
// source includes with three macros defined:
//   KERNEL(name)       takes the library's handle first; puts one kernel on the handle's stream
//   ACCEPTED(name)     succeeds and does nothing: it sets what nobody reads back here
//   UNSUPPORTED(name)  answers "not supported" in the library's own words, and its name is kept
// A function of the list is declared without its further parameters: in the x86-64 and AArch64 C calling
// conventions the caller alone deals with those.
//
// The headers of the libraries are not needed: only opaque pointers, plain integers and the few structs declared here
// cross the interface, and those are the same in every CUDA 12 and 13.

#ifndef FRUGAL_CUDA_SIMULATED_LIBRARIES_STAND_IN_H_
#define FRUGAL_CUDA_SIMULATED_LIBRARIES_STAND_IN_H_

#include <cstddef>

#define FRUGAL_STAND_IN extern "C" __attribute__((visibility("default")))

namespace frugal::sim {

// cudaStream_t; null is the default stream.
using Stream = void*;

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

}  // namespace frugal::sim

#endif  // FRUGAL_CUDA_SIMULATED_LIBRARIES_STAND_IN_H_
