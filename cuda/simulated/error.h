// What can go wrong on the simulated GPU. The numbers are CUDA's own, which the runtime (cudaError_t) and the
// driver (CUresult) share, so that the exported functions only change the type.

#ifndef FRUGAL_CUDA_SIMULATED_ERROR_H_
#define FRUGAL_CUDA_SIMULATED_ERROR_H_

#include <iosfwd>
#include <optional>
#include <string_view>

namespace frugal::sim {

enum class [[nodiscard]] Error : int{
    kSuccess = 0,
    kInvalidValue = 1,
    kOutOfMemory = 2,
    kNotInitialized = 3,
    kNoDevice = 100,
    kInvalidDevice = 101,
    kInvalidContext = 201,
    kMapFailed = 205,
    kUnmapFailed = 206,
    kAlreadyMapped = 208,
    kNotMapped = 211,
    kInvalidHandle = 400,
    kIllegalState = 401,
    kNotFound = 500,
    kNotReady = 600,
    kIllegalAddress = 700,
    kPeerAccessAlreadyEnabled = 704,
    kPeerAccessNotEnabled = 705,
    kTooManyPeers = 711,
    kContextIsDestroyed = 709,
    kHostMemoryAlreadyRegistered = 712,
    kHostMemoryNotRegistered = 713,
    kLaunchFailed = 719,
    kNotPermitted = 800,
    kNotSupported = 801,
    kCaptureUnsupported = 900,
    kCaptureInvalidated = 901,
    kCaptureMerge = 902,
    kCaptureUnmatched = 903,
    kCaptureUnjoined = 904,
    kCaptureIsolation = 905,
    kCaptureImplicit = 906,
    kCapturedEvent = 907,
    kCaptureWrongThread = 908,
    kInvalidResourceType = 914,
    kInvalidResourceConfiguration = 915,
    kStreamDetached = 917,
    kUnknown = 999,
};

// "out_of_memory" for kOutOfMemory, as fault plans spell it; "unknown" for a number that is not listed above.
std::string_view ErrorName(Error error);
std::optional<Error> ErrorFromName(std::string_view name);
// Its name, for test failures.
std::ostream& operator<<(std::ostream& out, Error error);

}  // namespace frugal::sim

// Leaves the function, which returns an Error, with the one of `expression`, if it is one. A statement of its own.
#define RETURN_IF_ERROR(expression) \
  if (const ::frugal::sim::Error failed = (expression); failed != ::frugal::sim::Error::kSuccess) return failed

#endif  // FRUGAL_CUDA_SIMULATED_ERROR_H_
