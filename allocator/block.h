// A byte range of an extent, and the states it goes through.

#ifndef FRUGAL_ALLOCATOR_BLOCK_H_
#define FRUGAL_ALLOCATOR_BLOCK_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "allocator/device.h"
#include "allocator/units.h"

namespace frugal {

class Extent;

enum class BlockState : uint8_t {
  kHole,       // addresses with no memory of ours behind them
  kFree,       // memory that work on the arena's stream may use
  kAllocated,  // handed out
  kAwaiting,   // given back, but other streams have not passed yet
};

enum class BlockStep : uint8_t {
  kFill,     // handles were mapped into a hole
  kVacate,   // the handles of a free range moved elsewhere
  kHandOut,  // to a caller
  kReturn,   // by the caller, and no other stream used it
  kDefer,    // by the caller, and other streams used it
  kPass,     // the last of those streams has passed
};

// The state after `step`. Ends the process if `state` does not allow it: the books would be wrong from there on.
BlockState Transition(BlockState state, BlockStep step);

const char* Name(BlockState state);

struct Block {
  Address address;
  Bytes size;
  Bytes requested;            // of a block handed out
  Block* previous = nullptr;  // in the order of addresses, within the extent
  Block* next = nullptr;
  Extent* extent = nullptr;
  void* annotation = nullptr;  // the owner's; see Observer
  // Streams other than the arena's that use the block while it is handed out.
  std::unique_ptr<absl::InlinedVector<Stream, 2>> other_streams;
  int32_t awaited_streams = 0;  // how many of them have not passed yet, once given back
  BlockState state = BlockState::kHole;
  bool counted_as_split = false;  // in Statistics::inactive_split

  Address end() const { return address + size; }
  bool IsMapped() const { return state != BlockState::kHole; }
  void Apply(BlockStep step) { state = Transition(state, step); }
};

// Makes blocks, and keeps those that are not needed for the next ones: a loop of allocations makes none.
// Not thread-safe.
class BlockFactory {
 public:
  Block* Make(Extent* extent, Address address, Bytes size, BlockState state);
  void Discard(Block* block);

 private:
  std::vector<std::unique_ptr<Block[]>> chunks_;
  std::vector<Block*> unused_;
};

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_BLOCK_H_
