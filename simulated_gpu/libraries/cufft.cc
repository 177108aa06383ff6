// The stand-in for cuFFT: see stand_in.h. A plan remembers its stream; a transform is one kernel.

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "simulated_gpu/libraries/stand_in.h"

namespace frugal::sim {
namespace {

// cufftResult
constexpr Library kLibrary{
    .success = {0, "CUFFT_SUCCESS"},
    .not_initialized = {1, "CUFFT_INVALID_PLAN"},
    .invalid_value = {4, "CUFFT_INVALID_VALUE"},
    .execution_failed = {6, "CUFFT_EXEC_FAILED"},
    .not_supported = {16, "CUFFT_NOT_SUPPORTED"},
};
constexpr int kInvalidSize = 8;

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
  return handle == nullptr ? kLibrary.invalid_value.value : kLibrary.Give(ThePlans().Add(), handle);
}

FRUGAL_STAND_IN int cufftDestroy(int handle) {
  return ThePlans().Remove(handle) ? Library::kSuccess : kLibrary.not_initialized.value;
}

FRUGAL_STAND_IN int cufftSetStream(int handle, Stream stream) {
  return kLibrary.Set(ThePlans().Find(handle), &Plan::stream, stream);
}

// The workspace holds the data once, as complex numbers. The real figure depends on how the sizes factor: NVIDIA's
// manual gives it as a multiple of this, from none to eightfold.
FRUGAL_STAND_IN int cufftXtMakePlanMany(int handle, int rank, const int64_t* sizes, const int64_t*, int64_t, int64_t,
                                        int input_type, const int64_t*, int64_t, int64_t, int, int64_t batch,
                                        size_t* workspace_bytes, int) {
  Plan* const plan = ThePlans().Find(handle);
  if (plan == nullptr) return kLibrary.not_initialized.value;
  if (rank < 1 || rank > 3 || sizes == nullptr || workspace_bytes == nullptr) return kLibrary.invalid_value.value;
  int64_t elements = batch;
  for (int i = 0; i < rank; ++i) elements *= sizes[i];
  if (elements <= 0) return kInvalidSize;
  *workspace_bytes = static_cast<size_t>(elements) * ComplexBytes(input_type);
  plan->workspace_bytes = *workspace_bytes;
  return Library::kSuccess;
}

FRUGAL_STAND_IN int cufftSetWorkArea(int handle, void* workspace) {
  const Plan* const plan = ThePlans().Find(handle);
  if (plan == nullptr) return kLibrary.not_initialized.value;
  NoteWorkspace(workspace, plan->workspace_bytes);
  return Library::kSuccess;
}

FRUGAL_STAND_IN int cufftXtExec(int handle, const void*, void*, int) {
  return kLibrary.Compute(ThePlans().Find(handle));
}

FRUGAL_STAND_IN int cufftGetVersion(int* version) { return kLibrary.Give((FRUGAL_SIM_CUDA_MAJOR - 1) * 1000, version); }

#include "simulated_gpu/libraries/cufft_functions.inc"

}  // namespace frugal::sim
