#include "bindings/adapter/site_sampler.h"

#include <array>
#include <cmath>

#include "bindings/adapter/module_calls.h"

namespace frugal {
namespace {

// Where nodes were made, by their number: a ring, so that what is older than a step or two is forgotten.
class ForwardSites {
 public:
  void Note(uint64_t sequence, SiteId site) {
    ring_[sequence % kSize].store(sequence << kSiteBits | static_cast<uint64_t>(site), std::memory_order_relaxed);
  }
  // Of a node, or of one that was made shortly before: not every node's outputs were recorded.
  SiteId Find(uint64_t sequence) const {
    for (uint64_t back = 0; back < kReach && back <= sequence; ++back) {
      const uint64_t entry = ring_[(sequence - back) % kSize].load(std::memory_order_relaxed);
      if (entry != 0 && entry >> kSiteBits == ((sequence - back) & kSequenceMask)) {
        return static_cast<SiteId>(entry & kSiteMask);
      }
    }
    return kNoSite;
  }

 private:
  static constexpr uint64_t kSize = 1 << 16;
  static constexpr uint64_t kReach = 8;
  static constexpr int kSiteBits = 24;
  static constexpr uint64_t kSiteMask = (1 << kSiteBits) - 1;
  static constexpr uint64_t kSequenceMask = (uint64_t{1} << (64 - kSiteBits)) - 1;
  static_assert(SiteTable::kMostSites <= kSiteMask);

  std::array<std::atomic<uint64_t>, kSize> ring_ = {};
};

ForwardSites forward_sites;

// The sites that a thread met last, by their keys: to find them takes no lock.
class RecentSites {
 public:
  struct Entry {
    uint64_t key = 0;
    SiteId site = kNoSite;
    bool is_users = false;  // a line of the user's own led there
    bool in_module = false;
  };

  template <typename F>
  const Entry& FindOr(uint64_t key, F&& find) {
    Entry& entry = entries_[key % kSize];
    if (entry.key != key) {
      const SiteId site = find();
      const Site& found = SiteTable::Instance().At(site);
      entry = {key, site, found.user != Site::kNone, found.in_module};
    }
    return entry;
  }

 private:
  static constexpr size_t kSize = 512;
  std::array<Entry, kSize> entries_ = {};
};

constinit thread_local RecentSites recent_sites;
// As of the thread's latest note of where a node was made.
constinit thread_local uint64_t noted_sequence = 0;

RecentSites::Entry SiteOfPython(PhaseId phase, absl::Span<const PythonFrame> frames) {
  uint64_t key = Mix(static_cast<uint64_t>(phase), frames.size());
  for (const PythonFrame& frame : frames) key = Mix(key, KeyOf(frame));
  return recent_sites.FindOr(key, [&] { return SiteTable::Instance().FindStack(key, phase, frames); });
}

SiteId SiteOfNode(PhaseId phase, const AutogradNode& node, absl::Span<const PythonFrame> frames) {
  const SiteId forward = forward_sites.Find(node.sequence);
  uint64_t key =
      Mix(Mix(reinterpret_cast<uint64_t>(node.type), static_cast<uint64_t>(forward)), ~static_cast<uint64_t>(phase));
  for (const PythonFrame& frame : frames) key = Mix(key, KeyOf(frame));
  const auto find = [&] {
    return SiteTable::Instance().FindNode(key, NodeName(*node.type, frames), forward, phase, frames);
  };
  return recent_sites.FindOr(key, find).site;
}

SiteId SiteOfPhase(PhaseId phase) {
  return recent_sites
      .FindOr(Mix(static_cast<uint64_t>(phase), 0), [phase] { return SiteTable::Instance().FindPhaseSite(phase); })
      .site;
}

struct Whereabouts {
  SiteId site;
  bool in_module;
};

Whereabouts SiteOf(PhaseId phase) {
  // To fill it with zeros first would take longer than all the rest.
  std::array<PythonFrame, kMostPythonFrames> frames;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  const size_t count = CapturePython(absl::MakeSpan(frames));
  RecentSites::Entry entry;
  if (count > 0) entry = SiteOfPython(phase, absl::MakeConstSpan(frames.data(), count));
  if (!entry.is_users) {
    // The thread of a backward pass, whatever Python it may run there on its own account.
    if (const std::optional<AutogradNode> node = CurrentAutogradNode(); node.has_value()) {
      return {SiteOfNode(phase, *node, absl::MakeConstSpan(frames.data(), count)), false};
    }
    if (count == 0) entry.site = SiteOfPhase(phase);
  }
  // An operator makes its node before it allocates its outputs: what else is allocated before the next node is not its.
  if (const uint64_t next = NextAutogradSequence(); next != noted_sequence) {
    noted_sequence = next;
    if (next > 0) forward_sites.Note(next - 1, entry.site);
  }
  return {entry.site, entry.in_module};
}

// xorshift64*: sixteen bits of it would do.
uint64_t NextRandom(uint64_t& state) {
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return state * 0x2545F4914F6CDD1D;
}

}  // namespace

std::atomic<bool> SiteSampler::is_on_{false};
std::atomic<uint32_t> SiteSampler::epoch_{0};
constinit thread_local SiteSampler::ThreadState SiteSampler::thread_;

PhaseId SiteSampler::SetPhase(PhaseId phase) {
  thread_.phase_site = SiteTable::Instance().FindPhaseSite(phase);
  return std::exchange(thread_.phase, phase);
}

SiteId SiteSampler::CurrentSite() { return SiteOf(thread_.phase).site; }

int64_t SiteSampler::DrawDistance(ThreadState& thread) {
  // The same numbers in each thread and each run.
  if (thread.random == 0) thread.random = 0x853C49E6748FEA9B;
  const double uniform = static_cast<double>(NextRandom(thread.random) >> 11) * 0x1p-53;
  return static_cast<int64_t>(-std::log1p(-uniform) * static_cast<double>(kSampleInterval.count()));
}

Sample SiteSampler::Take(size_t size) {
  ThreadState& thread = thread_;
  if (const uint32_t epoch = epoch_.load(std::memory_order_relaxed); thread.epoch != epoch) {
    thread.epoch = epoch;
    thread.detailed_left = kDetailed;
    thread.until_next = 0;
  }
  SiteId site = thread.phase_site;
  if (IsCalledBySomebody()) {
    const Whereabouts found = SiteOf(thread.phase);
    site = found.site;
    if (found.in_module && !thread.in_module) ModuleCalls::Note();
    thread.in_module = found.in_module;
  }
  if (thread.detailed_left > 0) {
    --thread.detailed_left;
    if (thread.detailed_left == 0) thread.until_next = DrawDistance(thread);
    return {site};
  }
  if (size >= static_cast<size_t>(kSampleInterval.count())) return {site};
  thread.until_next = DrawDistance(thread);
  return {site, true};
}

}  // namespace frugal
