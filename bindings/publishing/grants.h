// Gives memory that this process does not use to another that asks for it (neighbours.h).

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "bindings/publishing/outside.h"

namespace frugal {

// Answers one request after another. Only processes of this user are given anything, not even root: it may look, but
// its programs are other programs. Not thread-safe.
class Grants {
 public:
  struct Given {
    int64_t bytes = 0;
    bool is_all = true;  // else a stream has yet to pass
  };
  // Gives back up to `wanted` of what is idle on the GPU of that name, or a little more. Must wait for no stream.
  using GiveBack = std::function<Given(absl::string_view gpu, int64_t wanted)>;

  explicit Grants(GiveBack give_back, Outside outside = {})
      : give_back_(std::move(give_back)), outside_(std::move(outside)) {}

  // Reads a request from the connection, gives back, and returns how many bytes that was, for people. Memory that a
  // stream has not passed yet is tried again until Neighbours::kPatience is over, or the one who asks has gone.
  std::string Answer(int connection);

 private:
  // "": none has come in time, or not from a process of this user.
  std::string ReadLine(int connection);
  int64_t Give(absl::string_view gpu, int64_t wanted, int connection);
  // The same once, with an eye on the time.
  Given GiveOnce(absl::string_view gpu, int64_t wanted);
  bool HasGone(int connection);

  const GiveBack give_back_;
  const Outside outside_;
  // A flood of requests takes only a part of the time: what giving back took, less what has been paid off since.
  absl::Duration owed_;
  absl::Duration owed_at_;
};

}  // namespace frugal
