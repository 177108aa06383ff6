// The phases that a program names: "train", "validate".

#pragma once

#include <atomic>
#include <cstddef>
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
  PhaseTable() { static_cast<void>(Find("")); }

  // The same for the same name; kNoPhase for "".
  PhaseId Find(absl::string_view name) {
    absl::MutexLock lock(&mutex_);
    const auto [found, is_new] = by_name_.try_emplace(name, static_cast<PhaseId>(phases_.size()));
    if (is_new) phases_.emplace_back(found->first);
    return found->second;
  }
  // Whether Find has returned it. All that follows requires that.
  bool Has(PhaseId phase) const {
    absl::MutexLock lock(&mutex_);
    return static_cast<size_t>(phase) < phases_.size();
  }
  const std::string& NameOf(PhaseId phase) const { return At(phase).name; }
  // Memory of this phase may grow from epoch to epoch: the program means it to.
  void ExpectGrowth(PhaseId phase) { At(phase).expected_to_grow.store(true); }
  bool IsExpectedToGrow(PhaseId phase) const { return At(phase).expected_to_grow.load(); }

  void BecomeForkedChild() { Renew(mutex_); }

 private:
  struct Phase {
    explicit Phase(const std::string& called) : name(called) {}

    const std::string name;
    mutable std::atomic<bool> expected_to_grow{false};
  };

  const Phase& At(PhaseId phase) const {
    absl::MutexLock lock(&mutex_);
    return phases_.at(static_cast<size_t>(phase));
  }

  mutable absl::Mutex mutex_;
  // A deque, since phases never move.
  std::deque<Phase> phases_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, PhaseId> by_name_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace frugal
