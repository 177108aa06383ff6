// What can go wrong on the simulated GPU. The numbers are CUDA's own, which the runtime (cudaError_t) and the
// driver (CUresult) share, so that the exported functions only change the type.

#pragma once

#include <iosfwd>
#include <optional>
#include <string_view>

namespace frugal::sim {

enum class [[nodiscard]] Error : int{
#define ERROR(name, number, ...) name = number,
#include "simulated_gpu/machine/errors.inc"
#undef ERROR
};

// What an error is called.
struct ErrorText {
  const char* spelling;      // In fault plans: "out_of_memory".
  const char* runtime_name;  // "cudaErrorMemoryAllocation"
  const char* driver_name;   // "CUDA_ERROR_OUT_OF_MEMORY"
  const char* words;         // CUDA's: "out of memory".
};

// Lives for ever. kUnknown's for a number that is not listed.
const ErrorText& TextOf(Error error);

inline std::string_view ErrorName(Error error) { return TextOf(error).spelling; }
std::optional<Error> ErrorFromName(std::string_view spelling);
// Its name, for test failures.
std::ostream& operator<<(std::ostream& out, Error error);

}  // namespace frugal::sim

// Leaves the function, which returns an Error, with the one of `expression`, if it is one. A statement of its own.
#define RETURN_IF_ERROR(expression) \
  if (const ::frugal::sim::Error failed = (expression); failed != ::frugal::sim::Error::kSuccess) return failed
