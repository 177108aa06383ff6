#include "allocator/blocks/block.h"

#include <vector>

#include "gtest/gtest.h"

namespace frugal {
namespace {

constexpr BlockState kStates[] = {BlockState::kHole, BlockState::kFree, BlockState::kAllocated, BlockState::kAwaiting,
                                  BlockState::kClaimed};
constexpr BlockStep kSteps[] = {BlockStep::kFill,  BlockStep::kVacate, BlockStep::kHandOut, BlockStep::kReturn,
                                BlockStep::kDefer, BlockStep::kPass,   BlockStep::kClaim,   BlockStep::kUnclaim};

struct Allowed {
  BlockState from;
  BlockStep step;
  BlockState to;
};
constexpr Allowed kAllowed[] = {
    {BlockState::kHole, BlockStep::kFill, BlockState::kFree},
    {BlockState::kFree, BlockStep::kVacate, BlockState::kHole},
    {BlockState::kFree, BlockStep::kHandOut, BlockState::kAllocated},
    {BlockState::kAllocated, BlockStep::kReturn, BlockState::kFree},
    {BlockState::kAllocated, BlockStep::kDefer, BlockState::kAwaiting},
    {BlockState::kAwaiting, BlockStep::kPass, BlockState::kFree},
    {BlockState::kFree, BlockStep::kClaim, BlockState::kClaimed},
    {BlockState::kClaimed, BlockStep::kUnclaim, BlockState::kFree},
};

TEST(BlockStateMachine, AllowsExactlyTheStepsOfABlocksLife) {
  for (const Allowed& allowed : kAllowed) EXPECT_EQ(Transition(allowed.from, allowed.step), allowed.to);
}

TEST(BlockStateMachineDeathTest, EndsTheProcessAtAnyOtherStep) {
  for (BlockState state : kStates) {
    for (BlockStep step : kSteps) {
      bool allowed = false;
      for (const Allowed& one : kAllowed) allowed |= one.from == state && one.step == step;
      if (allowed) continue;
      EXPECT_DEATH(Transition(state, step), "internal error: a block that is");
    }
  }
}

TEST(BlockFactory, ReusesWhatWasDiscarded) {
  BlockFactory factory;
  Block* first = factory.Make(nullptr, Address(uint64_t{512}), kGrain, BlockState::kFree);
  first->use.annotation = first;
  factory.Discard(first);
  Block* second = factory.Make(nullptr, Address(uint64_t{1024}), kGrain, BlockState::kHole);
  EXPECT_EQ(second, first);
  EXPECT_EQ(second->use.annotation, nullptr);
}

TEST(BlockFactory, BlocksInUseAreDistinct) {
  BlockFactory factory;
  std::vector<Block*> blocks;
  for (uint64_t i = 0; i < 1000; ++i) {
    blocks.push_back(factory.Make(nullptr, Address(i * 512), kGrain, BlockState::kFree));
  }
  for (uint64_t i = 0; i < 1000; ++i) EXPECT_EQ(blocks[i]->address, Address(i * 512));
}

}  // namespace
}  // namespace frugal
