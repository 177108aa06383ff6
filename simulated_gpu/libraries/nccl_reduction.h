// The arithmetic of a reduction over ranks.

#pragma once

#include <cstddef>
#include <vector>

namespace frugal::sim::nccl {

struct Reduction {
  // A ReductionOperator that is NCCL's own.
  int op = 0;
  // A DataType.
  int type = 0;
  // Each rank multiplies by its own factor first (ncclRedOpCreatePreMulSum).
  double factor = 1;
};

// 8-bit floating-point numbers are not.
bool CanReduce(const Reduction& reduction);

// The number at `element`.
double ToDouble(int type, const void* element);

// Multiplies `count` elements at `elements` by the factor, in place.
void Scale(const Reduction& reduction, void* elements, size_t count);

// Of `count` elements of each rank's, in the order of ranks, so that every rank gets the same bits. Half-precision
// numbers are added up in single precision and rounded once. `target` may be one of the parts.
//
// REQUIRES: CanReduce(reduction), and there is a part.
void Reduce(const Reduction& reduction, const std::vector<const void*>& parts, void* target, size_t count);

}  // namespace frugal::sim::nccl
