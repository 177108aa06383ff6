#include "cuda/simulated/error.h"

#include <ostream>

namespace frugal::sim {
namespace {

struct NamedError {
  Error error;
  std::string_view name;
};

constexpr NamedError kNamedErrors[] = {
    {Error::kSuccess, "success"},
    {Error::kInvalidValue, "invalid_value"},
    {Error::kOutOfMemory, "out_of_memory"},
    {Error::kNotInitialized, "not_initialized"},
    {Error::kNoDevice, "no_device"},
    {Error::kInvalidDevice, "invalid_device"},
    {Error::kInvalidContext, "invalid_context"},
    {Error::kMapFailed, "map_failed"},
    {Error::kUnmapFailed, "unmap_failed"},
    {Error::kAlreadyMapped, "already_mapped"},
    {Error::kNotMapped, "not_mapped"},
    {Error::kInvalidHandle, "invalid_handle"},
    {Error::kIllegalState, "illegal_state"},
    {Error::kNotFound, "not_found"},
    {Error::kNotReady, "not_ready"},
    {Error::kIllegalAddress, "illegal_address"},
    {Error::kPeerAccessAlreadyEnabled, "peer_access_already_enabled"},
    {Error::kPeerAccessNotEnabled, "peer_access_not_enabled"},
    {Error::kTooManyPeers, "too_many_peers"},
    {Error::kContextIsDestroyed, "context_is_destroyed"},
    {Error::kHostMemoryAlreadyRegistered, "host_memory_already_registered"},
    {Error::kHostMemoryNotRegistered, "host_memory_not_registered"},
    {Error::kLaunchFailed, "launch_failed"},
    {Error::kNotPermitted, "not_permitted"},
    {Error::kNotSupported, "not_supported"},
    {Error::kCaptureUnsupported, "capture_unsupported"},
    {Error::kCaptureInvalidated, "capture_invalidated"},
    {Error::kCaptureMerge, "capture_merge"},
    {Error::kCaptureUnmatched, "capture_unmatched"},
    {Error::kCaptureUnjoined, "capture_unjoined"},
    {Error::kCaptureIsolation, "capture_isolation"},
    {Error::kCaptureImplicit, "capture_implicit"},
    {Error::kCapturedEvent, "captured_event"},
    {Error::kCaptureWrongThread, "capture_wrong_thread"},
    {Error::kInvalidResourceType, "invalid_resource_type"},
    {Error::kInvalidResourceConfiguration, "invalid_resource_configuration"},
    {Error::kStreamDetached, "stream_detached"},
    {Error::kUnknown, "unknown"},
};

}  // namespace

std::string_view ErrorName(Error error) {
  for (const NamedError& named : kNamedErrors) {
    if (named.error == error) return named.name;
  }
  return "unknown";
}

std::optional<Error> ErrorFromName(std::string_view name) {
  for (const NamedError& named : kNamedErrors) {
    if (named.name == name) return named.error;
  }
  return std::nullopt;
}

std::ostream& operator<<(std::ostream& out, Error error) { return out << ErrorName(error); }

}  // namespace frugal::sim
