// The parts of a program by the names that it gives them, for the report of what leaks.

#ifndef FRUGAL_BINDINGS_SITE_NAMES_H_
#define FRUGAL_BINDINGS_SITE_NAMES_H_

#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "allocator/allocation_site.h"
#include "bindings/forked_child.h"

namespace frugal {

// Names are kept for good, so that what they name is. Thread-safety: any thread.
class SiteNames {
 public:
  // The process's own, never destroyed.
  static SiteNames& Instance();

  SiteNames();

  // The same for the same name; kNoSite for "".
  SiteId Find(absl::string_view name);
  // Whether Find has returned it.
  bool Has(SiteId site) const;
  std::string Name(SiteId site) const;

  // Memory of this site may grow from epoch to epoch: the program means it to.
  void ExpectGrowth(SiteId site);
  bool IsExpectedToGrow(SiteId site) const;

  void BecomeForkedChild() { Renew(mutex_); }

 private:
  struct Site {
    std::string name;
    bool expected_to_grow = false;
  };

  mutable absl::Mutex mutex_;
  std::vector<Site> sites_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, SiteId> by_name_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace frugal

#endif  // FRUGAL_BINDINGS_SITE_NAMES_H_
