// Programs that are judged by what they keep from epoch to epoch.

#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "allocator/births/line_history.h"

namespace frugal {

// A program whose lines are numbers, and what it keeps, by name.
class MadeUpProgram {
 public:
  explicit MadeUpProgram(unsigned seed = 1) : random_(seed) {}

  // Puts a block of this size, made at `line`, in the place of the one that was kept under the name.
  void Keep(int64_t name, Bytes size, uint32_t line = 1) {
    Drop(name);
    kept_[name] = {births_.Born(size, {SiteId{line}}), size};
  }
  void Drop(int64_t name) {
    const auto found = kept_.find(name);
    if (found == kept_.end()) return;
    births_.Died(found->second.first, found->second.second);
    kept_.erase(found);
  }
  // Unless something is kept under the name.
  void Cache(int64_t name, Bytes size, uint32_t line) {
    if (!kept_.contains(name)) Keep(name, size, line);
  }
  // For good.
  void Leak(Bytes size, uint32_t line = 1) { births_.Born(size, {SiteId{line}}); }
  void Use(Bytes size) { births_.Died(births_.Born(size, {SiteId{1}}), size); }
  // From 0 to `limit` - 1.
  int64_t Below(int64_t limit) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(limit)); }
  int64_t Between(int64_t least, int64_t most) { return least + Below(most - least + 1); }
  void EndEpoch() { births_.EndEpoch(); }

  // The surest of all lines.
  LeakFinding Judge() const {
    const std::vector<SiteHistory> histories = births_.Histories();
    std::map<SiteId, LineHistory> by_site;
    for (const SiteHistory& history : histories) by_site[history.site].Add(history);
    std::vector<LineHistory> lines;
    for (auto& [site, line] : by_site) lines.push_back(std::move(line));
    LeakFinding surest;
    for (const LineJudgement& judgement : JudgeLines(lines)) {
      if (judgement.leak.verdict >= surest.verdict) surest = judgement.leak;
    }
    return surest;
  }

 private:
  std::mt19937 random_;
  BirthEpochs births_;
  std::map<int64_t, std::pair<uint32_t, Bytes>> kept_;
};

}  // namespace frugal
