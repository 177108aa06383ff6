// Memory that sleeps, for C++ programs: it keeps its addresses, and its physical memory is others' for a time.
//
//   #include <frugal_alloc/sleep.h>
//
//   frugal_alloc::retag(weights, "weights");
//   frugal_alloc::sleep({{"weights"}});
//   ...                                  // others have the memory
//   frugal_alloc::wake();
//
// docs/sleep.md has the details. All functions may be called from any thread; sleep and wake wait for each other.

#ifndef FRUGAL_ALLOC_SLEEP_H_
#define FRUGAL_ALLOC_SLEEP_H_

#include <frugal_alloc/detail/c_functions.h>
#include <frugal_alloc/torch.h>

#include <string>
#include <vector>

namespace frugal_alloc {

// --- Memory that sleeps: it keeps its addresses, and its physical memory is others' for a time. docs/sleep.md has
// more.

// While this object lives, what this thread allocates has the tag, as has what PyTorch's own threads allocate in its
// backward passes. May be nested: the innermost counts. Does nothing before enable(). status() is as above.
class [[nodiscard]] Tag {
 public:
  explicit Tag(const char* name) : status_(frugal_tag(name) == 0 ? Status() : Status(frugal_last_error())) {}
  ~Tag() {
    if (status_.ok()) static_cast<void>(frugal_untag());
  }
  Tag(const Tag&) = delete;
  Tag& operator=(const Tag&) = delete;
  const Status& status() const { return status_; }

 private:
  Status status_;
};

// The tensor's memory has this tag from now on; "": none. Of a view, it is all memory of the tensor that it is of.
// Memory that is not frugal_alloc's has no tags: nothing is done about it.
template <typename Tensor>
Status retag(const Tensor& tensor, const char* name) {
  return frugal_retag(tensor.storage().unsafeGetStorageImpl(), name) >= 0 ? Status() : Status(frugal_last_error());
}

// Names of tags.
using TagNames = std::vector<std::string>;

struct SleepOptions {
  TagNames tags = {};           // these alone; empty: all memory that has one
  TagNames keep = {};           // but not these
  TagNames drop = {};           // these are not copied: what they hold when they wake is undefined
  std::string host = "pinned";  // the host memory for the copies; or "pageable"
  // What is dropped becomes NaN, or integers of bytes 0xFF, so that a wrong tag is seen in the results.
  bool poison = false;
};

namespace detail {

inline std::string ToText(const TagNames& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : "\n") + name;
  return text;
}

}  // namespace detail

// Memory that has a tag falls asleep: its contents are copied to the host's, and its physical memory goes back to the
// driver. Waits for all work of the GPUs. If it fails, all is as before. Memory that shares a piece of 2 MiB with
// memory that is awake stays, as does what was kept in place or shared, and that of CUDA graphs. `json`, if not null,
// gets what slept and what stayed. The workspace that PyTorch keeps for cuBLAS has the tag of a stream's first product:
// compute that outside of a Tag, or call at::cuda::clearCublasWorkspaces() before.
inline Status sleep(const SleepOptions& options = {}, std::string* json = nullptr) {
  const std::string tags = detail::ToText(options.tags);
  const char* const slept =
      frugal_sleep(options.tags.empty() ? nullptr : tags.c_str(), detail::ToText(options.keep).c_str(),
                   detail::ToText(options.drop).c_str(), options.host.c_str(), options.poison ? 1 : 0);
  if (slept == nullptr) return Status(frugal_last_error());
  if (json != nullptr) *json = slept;
  return Status();
}

// Wakes what sleeps of these tags; none: all. If it fails, for want of memory say, all sleeps as before.
inline Status wake(const TagNames& tags = {}) {
  return frugal_wake(tags.empty() ? nullptr : detail::ToText(tags).c_str()) == nullptr ? Status(frugal_last_error())
                                                                                       : Status();
}

}  // namespace frugal_alloc

#endif  // FRUGAL_ALLOC_SLEEP_H_
