#include "bindings/publishing/grants.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "bindings/publishing/abstract_socket.h"
#include "bindings/publishing/neighbours.h"

namespace frugal {
namespace {

// For a line that is sent as soon as the connection is there.
constexpr absl::Duration kPatienceForLine = absl::Milliseconds(100);
// Until streams are asked again.
constexpr absl::Duration kPause = absl::Milliseconds(5);
// After a request that came to nothing, so that a flood of them takes no core.
constexpr absl::Duration kPauseAfterNothing = absl::Milliseconds(1);
// Giving back may take so long at once, as a program needs that asks for one tensor after another, and from then on a
// tenth of the time.
constexpr absl::Duration kMostOwed = absl::Seconds(1);
constexpr int64_t kPaidPart = 10;

}  // namespace

std::string Grants::Answer(int connection) {
  const Request request = ReadRequest(ReadLine(connection));
  const int64_t given = request.wanted > 0 ? Give(request.gpu, request.wanted, connection) : 0;
  if (given == 0) outside_.poll({}, kPauseAfterNothing);
  return absl::StrCat(given);
}

std::string Grants::ReadLine(int connection) {
  if (outside_.user_of(connection) != geteuid()) return "";
  pollfd line = {connection, POLLIN, 0};
  outside_.poll(absl::MakeSpan(&line, 1), kPatienceForLine);
  std::array<char, kMostRequestBytes> buffer;
  const ssize_t size = recv(connection, buffer.data(), buffer.size(), MSG_DONTWAIT);
  return size > 0 ? std::string(buffer.data(), static_cast<size_t>(size)) : "";
}

int64_t Grants::Give(absl::string_view gpu, int64_t wanted, int connection) {
  const absl::Duration deadline = outside_.now() + Neighbours::kPatience;
  // It may have waited for its turn too long.
  if (HasGone(connection)) return 0;
  Given given = GiveOnce(gpu, wanted);
  while (!given.is_all && given.bytes < wanted && outside_.now() + kPause < deadline && !HasGone(connection)) {
    outside_.poll({}, kPause);
    const Given more = GiveOnce(gpu, wanted - given.bytes);
    given = {given.bytes + more.bytes, more.is_all};
  }
  return given.bytes;
}

Grants::Given Grants::GiveOnce(absl::string_view gpu, int64_t wanted) {
  const absl::Duration began = outside_.now();
  owed_ = std::max(owed_ - (began - owed_at_) / kPaidPart, absl::ZeroDuration());
  owed_at_ = began;
  if (owed_ >= kMostOwed) return {};
  const Given given = give_back_(gpu, wanted);
  owed_ += outside_.now() - began;
  return given;
}

bool Grants::HasGone(int connection) {
  pollfd other = {connection, POLLRDHUP, 0};
  outside_.poll(absl::MakeSpan(&other, 1), absl::ZeroDuration());
  return other.revents != 0;
}

}  // namespace frugal
