// Calls that are made together: those between ncclGroupStart and ncclGroupEnd, or one alone.

#ifndef FRUGAL_CUDA_SIMULATED_LIBRARIES_NCCL_GROUP_H_
#define FRUGAL_CUDA_SIMULATED_LIBRARIES_NCCL_GROUP_H_

#include <memory>
#include <vector>

#include "cuda/simulated/libraries/nccl_call.h"
#include "cuda/simulated/libraries/nccl_communicator.h"
#include "cuda/simulated/libraries/nccl_types.h"

namespace frugal::sim::nccl {

// A thread's.
class Group {
 public:
  static Group& OfThisThread();

  void Start() { ++depth_; }
  Result End();
  // Forgets what was put in.
  Result EndWithoutRunning();

  // At once, or at the end of the outermost group.
  Result Add(Call call);
  Result Add(std::shared_ptr<Communicator> joining);

 private:
  int depth_ = 0;
  std::vector<Call> calls_;
  std::vector<std::shared_ptr<Communicator>> joining_;
};

}  // namespace frugal::sim::nccl

#endif  // FRUGAL_CUDA_SIMULATED_LIBRARIES_NCCL_GROUP_H_
