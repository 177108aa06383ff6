// The stand-in for cuFFT: see stand_in.h. A plan remembers its stream; a transform is one kernel.

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "cuda/simulated/libraries/stand_in.h"

namespace frugal::sim {
namespace {

// cufftResult
enum Result {
  kSuccess = 0,
  kInvalidPlan = 1,
  kInvalidValue = 4,
  kExecutionFailed = 6,
  kInvalidSize = 8,
  kNotSupported = 16,
};

constexpr int kVersion = (FRUGAL_SIM_CUDA_MAJOR - 1) * 1000;

struct Plan {
  Stream stream = nullptr;
  size_t workspace_bytes = 0;
};

// cufftHandle is a number, which any thread may use.
class Plans {
 public:
  int Add() {
    const std::lock_guard lock(mutex_);
    plans_[++last_];
    return last_;
  }
  bool Remove(int handle) {
    const std::lock_guard lock(mutex_);
    return plans_.erase(handle) == 1;
  }
  // Null if there is no such plan.
  Plan* Find(int handle) {
    const std::lock_guard lock(mutex_);
    const auto plan = plans_.find(handle);
    return plan == plans_.end() ? nullptr : &plan->second;
  }

 private:
  std::mutex mutex_;
  std::map<int, Plan> plans_;
  int last_ = 0;
};

Plans& ThePlans() {
  static auto* const plans = new Plans;  // never destroyed: programs may still transform while the process exits
  return *plans;
}

// Bytes of one element of a cudaDataType of complex or real numbers, as a complex number.
size_t ComplexBytes(int type) {
  switch (type) {
    case 1:  // CUDA_R_64F
    case 5:  // CUDA_C_64F
      return 16;
    case 2:  // CUDA_R_16F
    case 6:  // CUDA_C_16F
      return 4;
    default:
      return 8;
  }
}

}  // namespace

FRUGAL_STAND_IN int cufftCreate(int* handle) {
  if (handle == nullptr) return kInvalidValue;
  *handle = ThePlans().Add();
  return kSuccess;
}

FRUGAL_STAND_IN int cufftDestroy(int handle) { return ThePlans().Remove(handle) ? kSuccess : kInvalidPlan; }

FRUGAL_STAND_IN int cufftSetStream(int handle, Stream stream) {
  Plan* const plan = ThePlans().Find(handle);
  if (plan == nullptr) return kInvalidPlan;
  plan->stream = stream;
  return kSuccess;
}

// The workspace holds the data once, as complex numbers. The real figure depends on how the sizes factor: NVIDIA's
// manual gives it as a multiple of this, from none to eightfold.
FRUGAL_STAND_IN int cufftXtMakePlanMany(int handle, int rank, const int64_t* sizes, const int64_t*, int64_t, int64_t,
                                        int input_type, const int64_t*, int64_t, int64_t, int, int64_t batch,
                                        size_t* workspace_bytes, int) {
  Plan* const plan = ThePlans().Find(handle);
  if (plan == nullptr) return kInvalidPlan;
  if (rank < 1 || rank > 3 || sizes == nullptr || workspace_bytes == nullptr) return kInvalidValue;
  int64_t elements = batch;
  for (int i = 0; i < rank; ++i) elements *= sizes[i];
  if (elements <= 0) return kInvalidSize;
  *workspace_bytes = static_cast<size_t>(elements) * ComplexBytes(input_type);
  plan->workspace_bytes = *workspace_bytes;
  return kSuccess;
}

FRUGAL_STAND_IN int cufftSetWorkArea(int handle, void* workspace) {
  const Plan* const plan = ThePlans().Find(handle);
  if (plan == nullptr) return kInvalidPlan;
  NoteWorkspace(workspace, plan->workspace_bytes);
  return kSuccess;
}

FRUGAL_STAND_IN int cufftXtExec(int handle, const void*, void*, int) {
  const Plan* const plan = ThePlans().Find(handle);
  if (plan == nullptr) return kInvalidPlan;
  return LaunchKernel(plan->stream) ? kSuccess : kExecutionFailed;
}

FRUGAL_STAND_IN int cufftGetVersion(int* version) {
  if (version == nullptr) return kInvalidValue;
  *version = kVersion;
  return kSuccess;
}

#define ACCEPTED(name) \
  FRUGAL_STAND_IN int name() { return kSuccess; }
#define UNSUPPORTED(name)      \
  FRUGAL_STAND_IN int name() { \
    ReportUnsupported(#name);  \
    return kNotSupported;      \
  }
#include "cuda/simulated/libraries/cufft_functions.inc"

}  // namespace frugal::sim
