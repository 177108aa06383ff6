#include "tests/shadow/random_operations.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "simulated_gpu/machine/call_kind.h"

namespace frugal::shadow {
namespace {

constexpr std::array<int64_t, 7> kDevicePages = {4, 8, 13, 24, 48, 160, 400};
constexpr std::array<uint32_t, 4> kWantedLive = {3, 10, 30, 100};
constexpr std::array<uint32_t, 4> kRareOneIn = {8, 40, 200, 2000};

template <typename T, size_t N>
T Pick(Choices& choices, const std::array<T, N>& values) {
  return values[choices.Draw(N)];
}

// What a program sets an option to, beside its usual figure: whatever the option is, one of these makes what it governs
// common on a small device, and another makes it rare. 0 stands for the usual figure.
constexpr std::array<int64_t, 6> kValues = {1, 2, 4, 16, 100, 0};

// The calls that a plan can fail: all but the last kind, which is no call of its own.
constexpr uint32_t kFailingCalls = static_cast<uint32_t>(sim::CallKind::kUnmapWhileBusy);

}  // namespace

uint32_t Choices::Byte() {
  if (is_given_) return next_ < bytes_.size() ? bytes_[next_++] : 0;
  if (left_ == 0) {
    // SplitMix64.
    state_ += 0x9e3779b97f4a7c15;
    drawn_ = (state_ ^ (state_ >> 30)) * 0xbf58476d1ce4e5b9;
    drawn_ = (drawn_ ^ (drawn_ >> 27)) * 0x94d049bb133111eb;
    drawn_ ^= drawn_ >> 31;
    left_ = 8;
  }
  const uint32_t byte = drawn_ & 0xff;
  drawn_ >>= 8;
  --left_;
  return byte;
}

uint32_t Choices::Draw(uint32_t below) {
  if (below <= 1) return 0;
  uint32_t value = Byte();
  for (uint32_t most = 0xff; most < below - 1; most = most << 8 | 0xff) value = value << 8 | Byte();
  return value % below;
}

RandomOperations::RandomOperations(Choices& choices, Mix mix) : choices_(choices) {
  if (mix == Mix::kRoomy && !choices_.OneIn(16)) {
    DrawRoomy();
  } else {
    DrawTight();
  }
  with_pools_ = mix == Mix::kPools;
  DrawPolicy();
}

// A quarter of the programs has the policy as it is; on devices as small as theirs its handles are of one page.
void RandomOperations::DrawPolicy() {
  if (!program_.movable) return;
  with_segments_ = choices_.OneIn(3);
  with_options_ = !choices_.OneIn(4);
  if (with_options_) to_set_ = choices_.Draw(1U << kOptions.size());
}

void RandomOperations::DrawTight() {
  program_.pages = Pick(choices_, kDevicePages);
  program_.movable = !choices_.OneIn(5);
  streams_ = 1 + choices_.Draw(kStreams);
  wanted_live_ = Pick(choices_, kWantedLive);
  rare_ = Pick(choices_, kRareOneIn);
  sizes_ = static_cast<Sizes>(choices_.Draw(4));
  with_faults_ = choices_.OneIn(2);
  with_captures_ = choices_.OneIn(3);
  with_sleep_ = choices_.OneIn(3);
}

void RandomOperations::DrawRoomy() {
  program_.pages = 512;
  streams_ = 1 + choices_.Draw(kStreams);
  wanted_live_ = Pick(choices_, kWantedLive);
  rare_ = 2000;
  sizes_ = choices_.OneIn(4) ? Sizes::kMixed : Sizes::kSmall;
  with_faults_ = choices_.OneIn(2);
  with_sleep_ = choices_.OneIn(3);
}

Operation RandomOperations::Next(absl::Span<const uint32_t> live) {
  if (to_set_ != 0) {
    const int option = std::countr_zero(to_set_);
    to_set_ &= to_set_ - 1;
    return SetOption(static_cast<size_t>(option));
  }
  // A sleep is several operations, and undoes much of what makes other operations interesting.
  if (with_sleep_ && choices_.OneIn(16)) return SleepOrWake(live);
  if (with_pools_ && choices_.OneIn(12)) return KeepOrRelease(DrawPool());
  return choices_.OneIn(rare_) ? Rare(live) : Common(live);
}

Operation RandomOperations::Common(absl::Span<const uint32_t> live) {
  const uint32_t choice = choices_.Draw(64);
  const bool wants_more = live.size() < wanted_live_;
  // Fewer or more than half of the rest, so that the number of blocks drifts about what is wanted.
  const uint32_t allocations = wants_more ? 32 : 22;
  if (live.empty() || choice < allocations) return Allocate();
  if (choice < 54) return {.kind = OperationKind::kFree, .block = DrawBlock(live)};
  const int64_t time = choices_.Draw(256);
  if (choice < 59) return {.kind = OperationKind::kPass, .amount = time / 4};
  if (streams_ > 1 && choice < 62) {
    return {.kind = OperationKind::kUse, .stream = DrawStream(), .block = DrawBlock(live), .amount = time};
  }
  return {.kind = OperationKind::kWork, .stream = DrawStream(), .amount = time};
}

Operation RandomOperations::Rare(absl::Span<const uint32_t> live) {
  if (with_faults_ && choices_.OneIn(2)) return Fault();
  const int64_t pages = choices_.Draw(static_cast<uint32_t>(program_.pages) + 1);
  switch (choices_.Draw(16)) {
    case 0:
      return {.kind = OperationKind::kTrim, .amount = choices_.OneIn(2) ? 0 : pages};
    case 1:
      return {.kind = OperationKind::kMarkUse};
    case 2:
      return {.kind = OperationKind::kReturnIdle, .amount = pages};
    case 3:
      return {.kind = OperationKind::kSetLimit, .amount = choices_.OneIn(2) ? 0 : pages, .second = pages / 4};
    case 4:
      return {.kind = OperationKind::kEndEpoch, .amount = choices_.Draw(3)};
    case 5:
      return {.kind = OperationKind::kSnapshot};
    case 6:
      return {.kind = OperationKind::kResetPeaks};
    case 7:
      return {.kind = OperationKind::kCache, .amount = pages};
    case 8:
      return {.kind = OperationKind::kGarbage, .block = DrawBlock(live)};
    case 9:
      // Put off, a pool would be kept after its release.
      return {.kind = OperationKind::kMeanwhile, .amount = with_pools_ ? 0 : choices_.Draw(8)};
    case 10:
      return {.kind = OperationKind::kRecordStream, .stream = DrawStream(), .block = DrawBlock(live)};
    case 11:
      return {.kind = OperationKind::kFreeInside, .block = DrawBlock(live), .amount = DrawSize()};
    case 12:
    case 13:
      return {.kind = with_captures_ && choices_.OneIn(2) ? OperationKind::kBeginCapture : OperationKind::kEndCapture,
              .stream = DrawStream()};
    case 14:
      if (with_options_) return SetOption(choices_.Draw(kOptions.size()));
      [[fallthrough]];
    default:
      return {.kind = OperationKind::kPass, .amount = 2000};
  }
}

Operation RandomOperations::Fault() {
  return {.kind = choices_.OneIn(6) ? OperationKind::kFailAll : OperationKind::kFail,
          .call = static_cast<uint8_t>(choices_.Draw(kFailingCalls)),
          .error = static_cast<uint8_t>(choices_.Draw(kErrors.size())),
          .amount = 1 + choices_.Draw(choices_.OneIn(2) ? 2 : 12)};
}

Operation RandomOperations::SleepOrWake(absl::Span<const uint32_t> live) {
  const int64_t tag = choices_.OneIn(2) ? 0 : choices_.Draw(3);
  if (choices_.OneIn(4)) return {.kind = OperationKind::kTag, .block = DrawBlock(live), .amount = tag};
  // Mostly in their order; at times one is left out.
  constexpr std::array kOrder = {OperationKind::kFallAsleep, OperationKind::kLetGo, OperationKind::kTakeBack,
                                 OperationKind::kWakeUp};
  latest_of_sleep_ += choices_.OneIn(8) ? 2 : 1;
  const OperationKind kind = kOrder[latest_of_sleep_ % kOrder.size()];
  return kind == OperationKind::kLetGo ? Operation{.kind = kind} : Operation{.kind = kind, .amount = tag};
}

// What only programs hold moves on; what a graph may read is kept in most pools that there is one for.
Operation RandomOperations::KeepOrRelease(uint32_t& pool) {
  const bool is_of_graphs = pool % 2 == 1;
  if (choices_.OneIn(is_of_graphs ? 6 : 2)) {
    return {.kind = OperationKind::kReleasePool, .pool = std::exchange(pool, ++latest_pool_)};
  }
  if (!is_of_graphs && !choices_.OneIn(4)) return Allocate();
  return {.kind = OperationKind::kKeepPool, .pool = pool};
}

Operation RandomOperations::SetOption(size_t option) {
  const int64_t value = Pick(choices_, kValues);
  return {.kind = OperationKind::kSetOption,
          .option = static_cast<uint8_t>(option),
          .amount = value == 0 ? kUsualOptions[option] : value};
}

Operation RandomOperations::Allocate() {
  Operation allocate{.kind = OperationKind::kAllocate, .stream = DrawStream(), .block = next_block_++};
  allocate.amount = DrawSize();
  if (with_pools_ && !choices_.OneIn(4)) {
    allocate.kind = OperationKind::kAllocateInPool;
    allocate.pool = DrawPool();
  } else if (with_segments_ && choices_.OneIn(4)) {
    allocate.kind = OperationKind::kAllocateSegment;
  }
  if (choices_.OneIn(64)) allocate.second = DrawSize();
  return allocate;
}

// As many of each length: a bit length, then a number that has it.
int64_t RandomOperations::Log(int64_t most) {
  const uint32_t bits = choices_.Draw(40);
  const int64_t limit = int64_t{1} << (bits % 28);
  return 1 + static_cast<int64_t>(choices_.Draw(static_cast<uint32_t>(std::min(limit, most))));
}

int64_t RandomOperations::DrawSize() {
  const int64_t page = kPageSize.count();
  const int64_t memory = program_.pages * page;
  const auto up_to = [this](int64_t most) {
    return 1 + static_cast<int64_t>(choices_.Draw(static_cast<uint32_t>(most)));
  };
  // Now and then what no program should ask for.
  const uint32_t odd = choices_.Draw(256);
  if (odd == 0) return up_to(memory) + (choices_.OneIn(4) ? memory : 0);
  switch (sizes_) {
    case Sizes::kSmall:
      return odd < 8 ? up_to(kSmallLimit.count() * 2) : up_to(1 << (9 + odd % 8));
    case Sizes::kMixed:
      return odd < 160 ? up_to(300'000) : up_to(std::min<int64_t>(9'000'000, memory / 2));
    case Sizes::kLarge:
      return odd < 200 ? up_to(std::min<int64_t>(12'000'000, memory / 2)) : Log(memory);
    case Sizes::kPageEdges:
      const int64_t around = static_cast<int64_t>(choices_.Draw(5)) - 2;
      return std::max<int64_t>(1, page * (1 + static_cast<int64_t>(choices_.Draw(6))) + around * kGrain.count());
  }
  return 1;
}

uint32_t RandomOperations::DrawBlock(absl::Span<const uint32_t> live) {
  return live.empty() ? 0 : live[choices_.Draw(static_cast<uint32_t>(live.size()))];
}

}  // namespace frugal::shadow
