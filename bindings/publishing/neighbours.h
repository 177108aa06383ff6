// Asks other processes for memory that they do not use, before memory is out here.

#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "bindings/publishing/outside.h"

namespace frugal {

// The processes of this user that listen at names of kRoom. Each is sent one line, WriteRequest, and closes the
// connection once it has given what it can (grants.h). What it answers is not read: whether memory came is asked of the
// GPU. So one that lies, dies, or sends without end is as one that gives nothing; one that hangs costs kPatience; and
// whatever an older or newer version does there harms nobody.
//
// Thread-safety: any thread. Takes no lock, so a child by fork finds nothing to renew.
class Neighbours {
 public:
  // Of the names where processes are asked: see Publisher::NameOfThisProcess.
  static constexpr char kRoom[] = "give/";
  // From the question until the memory is there.
  static constexpr absl::Duration kPatience = absl::Milliseconds(200);

  // The names of all who can be asked, this process among them; looks no longer than to `deadline`.
  using List = std::function<std::vector<std::string>(const Outside& outside, absl::Duration deadline)>;
  static std::vector<std::string> ListFromKernel(const Outside& outside, absl::Duration deadline);

  explicit Neighbours(Outside outside = {}, List list = &Neighbours::ListFromKernel)
      : outside_(std::move(outside)), list_(std::move(list)) {}
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

  // Whether anybody is asked; at first, nobody.
  void Set(bool is_wanted) { is_wanted_.store(is_wanted, std::memory_order_relaxed); }

  // Asks those who use `gpu`, a name that no two GPUs have, for `wanted` bytes, and waits until `free()`, the bytes
  // that the GPU has free, are so many, all have answered, or kPatience is over. False: nobody was asked. After
  // questions in vain there are none for some time: they take at most an eleventh of all time.
  bool Ask(absl::string_view gpu, int64_t wanted, absl::FunctionRef<int64_t()> free);

 private:
  const Outside outside_;
  const List list_;
  std::atomic<bool> is_wanted_{false};
  std::atomic<int64_t> rests_until_{0};  // nanoseconds of outside_.now()
};

// What is asked for, in one line. "": it does not fit.
std::string WriteRequest(absl::string_view gpu, int64_t wanted);
struct Request {
  std::string gpu;
  int64_t wanted = 0;
};
// What has been read of a line. `wanted` is 0 where that is no request.
Request ReadRequest(absl::string_view line);
inline constexpr size_t kMostRequestBytes = 512;

}  // namespace frugal
