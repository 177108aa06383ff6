// What crosses NCCL's interface, by the layout that its documentation gives: the same in every NCCL 2.

#pragma once

#include <climits>
#include <cstddef>

namespace frugal::sim::nccl {

// ncclResult_t
enum Result {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
};

// ncclDataType_t
enum DataType {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
  kFloat8e4m3 = 10,
  kFloat8e5m2 = 11,
};

// Bytes of one element; 0 for what is no type.
constexpr size_t SizeOf(int type) {
  constexpr size_t kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return type >= 0 && type <= kFloat8e5m2 ? kSizes[type] : 0;
}

// ncclRedOp_t; what a program has made itself comes after these.
enum ReductionOperator { kSum = 0, kProduct = 1, kMaximum = 2, kMinimum = 3, kAverage = 4, kFirstOwnOperator = 5 };

struct UniqueId {
  char internal[128];
};

// The beginning of ncclConfig_t, which later versions have only made longer.
struct Config {
  static constexpr int kUndefined = INT_MIN;

  size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
  int cga_cluster_size;
  int min_ctas;
  int max_ctas;
  const char* net_name;
  int split_share;
};

// ncclSimInfo_t
struct SimulationInfo {
  size_t size;
  unsigned magic;
  unsigned version;
  float estimated_time;
};

}  // namespace frugal::sim::nccl
