// What the program calls its memory: "weights", "kv_cache".

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "bindings/adapter/routing.h"
#include "bindings/threads/forked_child.h"

namespace frugal {

// Each task of Python's has a tag, or none, which its allocations get, and so has each thread that enters one here;
// PyTorch's own threads that run their backward passes have it, too. Thread-safety: any thread.
class Tags {
 public:
  using Id = uint8_t;
  static constexpr Id kNone = 0;

  explicit Tags(Routing& routing) : routing_(routing) {}

  // The tag of this name, from now on if there was none. "": kNone. kResourceExhausted: there are 255 others.
  absl::StatusOr<Id> Of(absl::string_view name);
  // kNotFound: nobody has used it yet.
  absl::StatusOr<Id> Find(absl::string_view name) const;
  // "" of kNone.
  std::string NameOf(Id tag) const;

  // The calling thread's until Leave, for which it has its former again. Leave without Enter does nothing.
  void Enter(Id tag);
  void Leave();
  // So many more of Python's contexts have a tag (PythonContextTag()), the calling thread's perhaps among them.
  void FollowContexts(int change);
  // The calling thread's.
  static Id Current();

  void BecomeForkedChild() { Renew(mutex_); }

 private:
  Routing& routing_;
  mutable absl::Mutex mutex_;
  // By number, from 1.
  std::vector<std::string> names_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace frugal
