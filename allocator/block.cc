#include "allocator/block.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

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
  }
  return "?";
}

[[noreturn]] void RefuseStep(BlockState state, BlockStep step) {
  std::fprintf(stderr, "frugal_alloc: internal error: a block that is %s cannot %s\n", Name(state), Name(step));
  std::abort();
}

}  // namespace

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
  }
  return "?";
}

BlockState Transition(BlockState state, BlockStep step) {
  switch (step) {
    case BlockStep::kFill:
      if (state == BlockState::kHole) return BlockState::kFree;
      break;
    case BlockStep::kVacate:
      if (state == BlockState::kFree) return BlockState::kHole;
      break;
    case BlockStep::kHandOut:
      if (state == BlockState::kFree) return BlockState::kAllocated;
      break;
    case BlockStep::kReturn:
      if (state == BlockState::kAllocated) return BlockState::kFree;
      break;
    case BlockStep::kDefer:
      if (state == BlockState::kAllocated) return BlockState::kAwaiting;
      break;
    case BlockStep::kPass:
      if (state == BlockState::kAwaiting) return BlockState::kFree;
      break;
  }
  RefuseStep(state, step);
}

Block* BlockFactory::Make(Extent* extent, Address address, Bytes size, BlockState state) {
  if (unused_.empty()) {
    chunks_.push_back(std::make_unique<Block[]>(kBlocksPerChunk));
    for (size_t i = kBlocksPerChunk; i > 0; --i) unused_.push_back(&chunks_.back()[i - 1]);
  }
  Block* block = unused_.back();
  unused_.pop_back();
  block->extent = extent;
  block->address = address;
  block->size = size;
  block->state = state;
  return block;
}

void BlockFactory::Discard(Block* block) {
  *block = Block();
  unused_.push_back(block);
}

}  // namespace frugal
