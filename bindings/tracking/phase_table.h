// The phases that a program names: "train", "validate".

#ifndef FRUGAL_BINDINGS_TRACKING_PHASE_TABLE_H_
#define FRUGAL_BINDINGS_TRACKING_PHASE_TABLE_H_

#include <cstdint>
#include <deque>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "bindings/threads/forked_child.h"

namespace frugal {

// A phase of the program; kNoPhase: none.
enum class PhaseId : uint32_t {};
inline constexpr PhaseId kNoPhase{0};

// Phases are kept for good, and their names never change. Thread-safety: any thread.
class PhaseTable {
 public:
  PhaseTable();

  // The same for the same name; kNoPhase for "".
  PhaseId Find(absl::string_view name);
  // Whether Find has returned it. All that follows requires that.
  bool Has(PhaseId phase) const;
  const std::string& NameOf(PhaseId phase) const;
  // Memory of this phase may grow from epoch to epoch: the program means it to.
  void ExpectGrowth(PhaseId phase);
  bool IsExpectedToGrow(PhaseId phase) const;

  void BecomeForkedChild() { Renew(mutex_); }

 private:
  struct Phase {
    std::string name;
    bool expected_to_grow = false;
  };

  mutable absl::Mutex mutex_;
  // A deque, since NameOf returns references.
  std::deque<Phase> phases_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, PhaseId> by_name_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace frugal

#endif  // FRUGAL_BINDINGS_TRACKING_PHASE_TABLE_H_
