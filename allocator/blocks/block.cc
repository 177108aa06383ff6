#include "allocator/blocks/block.h"

#include "absl/strings/str_cat.h"
#include "allocator/port/check.h"

namespace frugal {
namespace {

constexpr size_t kBlocksPerChunk = 128;

const char* Name(BlockStep step) {
  switch (step) {
    case BlockStep::kFill:
      return "fill";
    case BlockStep::kVacate:
      return "vacate";
    case BlockStep::kHandOut:
      return "hand out";
    case BlockStep::kReturn:
      return "return";
    case BlockStep::kDefer:
      return "defer";
    case BlockStep::kPass:
      return "pass";
    case BlockStep::kClaim:
      return "claim";
    case BlockStep::kUnclaim:
      return "unclaim";
    case BlockStep::kFallAsleep:
      return "fall asleep";
    case BlockStep::kWakeUp:
      return "wake up";
    case BlockStep::kDrop:
      return "drop";
    case BlockStep::kFallAsleepInPool:
      return "fall asleep in its pool";
    case BlockStep::kWakeUpInPool:
      return "wake up in its pool";
  }
  return "?";
}

}  // namespace

void RefuseStep(BlockState state, BlockStep step) {
  FailCheck(absl::StrCat("a block that is ", Name(state), " cannot ", Name(step)));
}

const char* Name(BlockState state) {
  switch (state) {
    case BlockState::kHole:
      return "a hole";
    case BlockState::kFree:
      return "free";
    case BlockState::kAllocated:
      return "allocated";
    case BlockState::kAwaiting:
      return "awaiting streams";
    case BlockState::kClaimed:
      return "claimed";
    case BlockState::kAsleep:
      return "asleep";
    case BlockState::kPoolAsleep:
      return "free in a pool that sleeps";
  }
  return "?";
}

void BlockFactory::AddChunk() {
  chunks_.push_back(std::make_unique<Block[]>(kBlocksPerChunk));
  for (size_t i = kBlocksPerChunk; i > 0; --i) Discard(&chunks_.back()[i - 1]);
}

}  // namespace frugal
