// The places in a program that memory is asked for from: lines of Python with the calls that led there, nodes of a
// backward pass, and the phases that the program itself names.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "allocator/births/allocation_site.h"
#include "bindings/threads/forked_child.h"
#include "bindings/tracking/code_owners.h"
#include "bindings/tracking/phase_table.h"
#include "bindings/tracking/python_stack.h"

namespace frugal {

struct Site {
  static constexpr int kNone = -1;

  PhaseId phase = kNoPhase;
  std::vector<uint32_t> lines;  // numbers of lines, of the innermost call first; empty: no Python was running
  int user = kNone;             // index in `lines` of the innermost one that is the user's own
  std::string node;             // of a backward pass, "MulBackward0" or "autograd.Function Swish"; "" if it was none
  SiteId forward = kNoSite;     // where that node was made; kNoSite: unknown
  bool in_module = false;       // within a call of nn.Module
};

// Sites and lines are kept for good, and never change. Thread-safety: any thread.
class SiteTable {
 public:
  // More are taken for kNoSite: a program that makes up code as it runs would fill the memory.
  static constexpr size_t kMostSites = 1 << 16;

  // The process's own, never destroyed.
  static SiteTable& Instance();

  SiteTable();

  // The phases that sites belong to.
  PhaseTable& phases() { return phases_; }
  const PhaseTable& phases() const { return phases_; }

  // Of lines that are met from now on.
  void SetOwners(CodeOwners owners);

  // The site of a phase outside of Python; kNoSite for kNoPhase.
  SiteId FindPhaseSite(PhaseId phase);
  // `key` stands for the frames and the phase. The frames are as CapturePython left them.
  SiteId FindStack(uint64_t key, PhaseId phase, absl::Span<const PythonFrame> frames);
  // `key` stands for the node, where it was made, and the Python that it runs, none of it the user's own.
  SiteId FindNode(uint64_t key, absl::string_view node, SiteId forward, PhaseId phase,
                  absl::Span<const PythonFrame> frames);

  size_t size() const;
  // How often there was no room for one more site.
  int64_t left_out() const;
  // REQUIRES: a Find has returned it.
  const Site& At(SiteId site) const;
  const CodeLine& LineAt(uint32_t number) const;
  // The user's own line that the site's memory is for, in a backward pass that of the forward pass; "" and 0: unknown.
  CodeLine UserLine(SiteId site) const;

  void BecomeForkedChild();

 private:
  // Notes it, if it is.
  bool IsFull() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  SiteId Add(uint64_t key, Site site) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint32_t FindLine(const PythonFrame& frame) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  PhaseTable phases_;
  mutable absl::Mutex mutex_;
  std::deque<Site> sites_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, SiteId> sites_by_key_ ABSL_GUARDED_BY(mutex_);
  // Lines, and whether they are the user's own.
  std::deque<std::pair<CodeLine, bool>> lines_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, uint32_t> lines_by_frame_ ABSL_GUARDED_BY(mutex_);
  CodeOwners owners_ ABSL_GUARDED_BY(mutex_);
  int64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Two figures become one, for keys.
inline uint64_t Mix(uint64_t a, uint64_t b) {
  // The golden ratio's multiplier, and a rotation so that order matters.
  a = (a ^ b) * 0x9E3779B97F4A7C15;
  return a ^ a >> 32;
}
inline uint64_t KeyOf(const PythonFrame& frame) {
  uint64_t key = Mix(reinterpret_cast<uint64_t>(frame.code), static_cast<uint64_t>(frame.instruction));
  key = Mix(key, reinterpret_cast<uint64_t>(frame.lines));
  return Mix(key, reinterpret_cast<uint64_t>(frame.file));
}

}  // namespace frugal
