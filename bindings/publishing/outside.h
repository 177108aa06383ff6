// What a conversation with another process depends on beside the two.

#pragma once

#include <poll.h>
#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "bindings/publishing/abstract_socket.h"

namespace frugal {

// Tests have their own.
struct Outside {
  // Since some moment; nobody sets this clock.
  std::function<absl::Duration()> now = [] {
    return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
  };
  // poll(2): until one of them is ready, the time is over, or a signal comes. Of all, `revents` is set.
  std::function<void(absl::Span<pollfd> sockets, absl::Duration longest)> poll = [](absl::Span<pollfd> sockets,
                                                                                    absl::Duration longest) {
    for (pollfd& socket : sockets) socket.revents = 0;
    const auto milliseconds = static_cast<int>(absl::ToInt64Milliseconds(longest + absl::Microseconds(999)));
    ::poll(sockets.data(), sockets.size(), std::max(milliseconds, 0));
  };
  std::function<std::optional<uid_t>(int connection)> user_of = &UserAtOtherEnd;
};

}  // namespace frugal
