// How much host memory the process has in use.

#ifndef FRUGAL_BENCH_HEAP_H_
#define FRUGAL_BENCH_HEAP_H_

#include <malloc.h>

#include <cstddef>

namespace frugal::bench {

// Bytes handed out by malloc and not freed yet.
inline size_t HeapInUse() {
  const struct mallinfo2 heap = mallinfo2();
  return heap.uordblks + heap.hblkhd;
}

}  // namespace frugal::bench

#endif  // FRUGAL_BENCH_HEAP_H_
