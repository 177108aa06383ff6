// Asks what a process publishes, as `frugal-alloc top` does.

#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <string>

namespace frugal {

inline sockaddr_un AddressOf(const std::string& name, socklen_t& size) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

// -1: nobody listens.
inline int Connect(const std::string& name) {
  socklen_t size = 0;
  const sockaddr_un address = AddressOf(name, size);
  const int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(connection, reinterpret_cast<const sockaddr*>(&address), size) == 0) return connection;
  close(connection);
  return -1;
}

// Up to the end of the line or of the stream.
inline std::string ReadLine(int connection) {
  std::string text;
  std::array<char, 4096> buffer;
  while (text.empty() || text.back() != '\n') {
    const ssize_t size = read(connection, buffer.data(), buffer.size());
    if (size <= 0) break;
    text.append(buffer.data(), static_cast<size_t>(size));
  }
  return text;
}

// What the process of this name answers; "nobody" where nobody listens.
inline std::string Ask(const std::string& name) {
  const int connection = Connect(name);
  if (connection < 0) return "nobody";
  std::string answer = ReadLine(connection);
  close(connection);
  return answer;
}

}  // namespace frugal
