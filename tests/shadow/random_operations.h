// Draws programs from bytes, be they a fuzzer's or a seed's.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "tests/shadow/operation.h"

namespace frugal::shadow {

// The bytes that everything is drawn from: those given, or without an end those that follow from a seed.
class Choices {
 public:
  explicit Choices(uint64_t seed) : state_(seed) {}
  explicit Choices(absl::Span<const uint8_t> bytes) : bytes_(bytes), is_given_(true) {}

  // Bytes that were given are used up; from then on every draw is 0.
  bool IsUsedUp() const { return is_given_ && next_ >= bytes_.size(); }

  // In [0, below), from as few bytes as hold that many values.
  uint32_t Draw(uint32_t below);
  bool OneIn(uint32_t times) { return Draw(times) == 0; }

 private:
  uint32_t Byte();

  absl::Span<const uint8_t> bytes_;
  bool is_given_ = false;
  size_t next_ = 0;
  uint64_t state_ = 0;
  uint64_t drawn_ = 0;  // of the seed's, eight at a time
  int left_ = 0;
};

// What programs are like.
enum class Mix {
  kTight,  // half of the requests or more miss, many fail, and what is rare in practice is not
  kPools,  // as tight, with private pools: for CheckLevel::kOff, since the models know nothing of them
  kRoomy,  // fifteen of sixteen are as in practice: most requests are served at once, and memory seldom runs out
};

// One random program. What its device, sizes and rare operations are like is drawn first, so that programs differ from
// one another more than the operations within one.
class RandomOperations {
 public:
  explicit RandomOperations(Choices& choices, Mix mix = Mix::kTight);

  // Of no operations yet.
  const Program& program() const { return program_; }
  // `live`: the blocks that exist.
  Operation Next(absl::Span<const uint32_t> live);

 private:
  void DrawTight();
  void DrawRoomy();
  void DrawPolicy();

  enum class Sizes : uint8_t { kSmall, kMixed, kLarge, kPageEdges };

  Operation Allocate();
  Operation Common(absl::Span<const uint32_t> live);
  Operation Rare(absl::Span<const uint32_t> live);
  Operation Fault();
  Operation SetOption(size_t option);
  Operation SleepOrWake(absl::Span<const uint32_t> live);
  Operation KeepOrRelease(uint32_t& pool);
  int64_t DrawSize();
  int64_t Log(int64_t most);
  uint32_t DrawBlock(absl::Span<const uint32_t> live);
  uint32_t& DrawPool() { return pools_[choices_.Draw(pools_.size())]; }
  uint8_t DrawStream() { return static_cast<uint8_t>(1 + choices_.Draw(streams_)); }

  Choices& choices_;
  Program program_;
  uint32_t streams_ = 1;
  uint32_t wanted_live_ = 8;
  uint32_t rare_ = 64;  // one operation in so many
  bool with_faults_ = false;
  bool with_captures_ = false;
  bool with_sleep_ = false;
  bool with_segments_ = false;
  bool with_pools_ = false;
  size_t latest_of_sleep_ = 4;  // in their order
  Sizes sizes_ = Sizes::kMixed;
  uint32_t next_block_ = 1;
  std::array<uint32_t, 3> pools_ = {1, 2, 3};  // that are not released yet
  uint32_t latest_pool_ = 3;
  uint32_t to_set_ = 0;  // options, a bit for each, before anything else
  static_assert(kOptions.size() < 32);
  bool with_options_ = false;
};

}  // namespace frugal::shadow
