// How much of each stream's work somebody has seen done: the order that a program made, whatever time says.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace frugal::sim {

// Of each stream, by its number, the last operation that is seen; operations of a stream count from 1, and whoever has
// seen one has seen all that it came after. 0: nothing of that stream. Not thread-safe.
class VectorClock {
 public:
  uint64_t at(uint32_t stream) const { return stream < last_.size() ? last_[stream] : 0; }

  // Whether it has seen all that `other` has.
  bool Covers(const VectorClock& other) const {
    for (uint32_t stream = 0; stream < other.last_.size(); ++stream) {
      if (at(stream) < other.last_[stream]) return false;
    }
    return true;
  }

  void Raise(uint32_t stream, uint64_t operation) {
    if (stream >= last_.size()) last_.resize(size_t{stream} + 1, 0);
    last_[stream] = std::max(last_[stream], operation);
  }
  // Sees what `other` has seen, too.
  void Join(const VectorClock& other) {
    if (other.last_.size() > last_.size()) last_.resize(other.last_.size(), 0);
    for (size_t i = 0; i < other.last_.size(); ++i) last_[i] = std::max(last_[i], other.last_[i]);
  }

 private:
  std::vector<uint64_t> last_;
};

}  // namespace frugal::sim
