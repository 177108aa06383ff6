// Unix sockets in the abstract namespace: they have no file, and go with their process.

#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>

#include "absl/strings/string_view.h"

namespace frugal {

struct SocketName {
  SocketName() = default;
  // Without the zero that it begins with in the kernel.
  explicit SocketName(absl::string_view name) {
    address.sun_family = AF_UNIX;
    const size_t length = std::min(name.size(), sizeof(address.sun_path) - 1);
    std::memcpy(address.sun_path + 1, name.data(), length);
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  }

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }

  bool operator==(const SocketName& other) const {
    return size == other.size && std::memcmp(&address, &other.address, size) == 0;
  }

  sockaddr_un address = {};
  socklen_t size = 0;
};

// Whose process is at the other end, as the kernel says: of a connection that was made, who listens. nullopt: it does
// not say.
inline std::optional<uid_t> UserAtOtherEnd(int connection) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer.uid;
}

}  // namespace frugal
