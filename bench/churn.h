// A loop of frees and allocations among many live blocks.

#pragma once

#include <c10/cuda/CUDACachingAllocator.h>
#include <malloc.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace frugal::bench {

// Holds `live` blocks of 512 B to 16 KiB. Each step frees one and allocates another in its stead; which, and of what
// size, is drawn evenly, the same in every run.
class Churn {
 public:
  Churn(c10::cuda::CUDACachingAllocator::CUDAAllocator& allocator, size_t live)
      : allocator_(allocator), blocks_(live) {}

  // Fills all places, and goes on until free blocks of all sizes lie between them. Returns the bytes of the host's heap
  // that this took.
  int64_t Prepare() {
    const int64_t before = HeapInUse();
    for (c10::DataPtr& block : blocks_) block = allocator_.allocate(DrawSize());
    for (size_t i = 0; i < blocks_.size(); ++i) Step();
    return HeapInUse() - before;
  }
  void Step() {
    c10::DataPtr& block = blocks_[Draw(blocks_.size())];
    block.clear();
    block = allocator_.allocate(DrawSize());
  }

 private:
  size_t Draw(size_t below) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return (state_ >> 33) % below;
  }
  // Handed out by malloc and not freed yet.
  static int64_t HeapInUse() {
    const struct mallinfo2 heap = mallinfo2();
    return static_cast<int64_t>(heap.uordblks + heap.hblkhd);
  }
  size_t DrawSize() { return 512 * (1 + Draw(32)); }

  c10::cuda::CUDACachingAllocator::CUDAAllocator& allocator_;
  std::vector<c10::DataPtr> blocks_;
  uint64_t state_ = 1;
};

}  // namespace frugal::bench
