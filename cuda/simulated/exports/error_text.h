// CUDA's names of errors and the words for them.

#ifndef FRUGAL_CUDA_SIMULATED_EXPORTS_ERROR_TEXT_H_
#define FRUGAL_CUDA_SIMULATED_EXPORTS_ERROR_TEXT_H_

namespace frugal::sim {

// Both live for ever.
struct ErrorText {
  const char* name;
  const char* text;
};

// By the number of a cudaError_t, as "cudaErrorMemoryAllocation".
ErrorText RuntimeErrorText(int error);
// By the number of a CUresult, as "CUDA_ERROR_OUT_OF_MEMORY".
ErrorText DriverErrorText(int error);

}  // namespace frugal::sim

#endif  // FRUGAL_CUDA_SIMULATED_EXPORTS_ERROR_TEXT_H_
