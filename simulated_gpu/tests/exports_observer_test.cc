// Who is told of copies and workspaces, and which functions were called that are not simulated.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "simulated_gpu/tests/exports_fixture.h"

namespace frugal::sim {
namespace {

struct Heard {
  int kind;
  uint64_t address;
  int64_t bytes;
  bool operator==(const Heard&) const = default;
};

std::vector<Heard>& AllHeard() {
  static std::vector<Heard> heard;
  return heard;
}

class ObserverTest : public ExportsTest {
 protected:
  ObserverTest() {
    AllHeard().clear();
    DRIVER(frugal_sim_set_observer)
    ([](int kind, uint64_t address, int64_t bytes) { AllHeard().push_back({kind, address, bytes}); });
    EXPECT_EQ(RUNTIME(cudaMalloc)(reinterpret_cast<void**>(&device_), kPage), cudaSuccess);
  }
  ~ObserverTest() override {
    DRIVER(frugal_sim_set_observer)(nullptr);
    RUNTIME(cudaFree)(device_);
  }
  uint64_t At(size_t offset) const { return reinterpret_cast<uintptr_t>(device_) + offset; }

  char* device_ = nullptr;
  char host_[100] = {};
};

TEST_F(ObserverTest, HearsOfCopiesFromTheHostAlone) {
  cudaStream_t stream = NewStream();
  ASSERT_EQ(RUNTIME(cudaMemcpy)(device_ + 8, host_, 16, cudaMemcpyHostToDevice), cudaSuccess);
  ASSERT_EQ(RUNTIME(cudaMemcpyAsync)(device_, host_, 32, cudaMemcpyDefault, stream), cudaSuccess);
  ASSERT_EQ(RUNTIME(cudaMemcpy2D)(device_, 64, host_, 10, 10, 3, cudaMemcpyHostToDevice), cudaSuccess);
  ASSERT_EQ(RUNTIME(cudaMemcpy)(host_, device_, 16, cudaMemcpyDeviceToHost), cudaSuccess);
  ASSERT_EQ(RUNTIME(cudaMemcpy)(device_ + 64, device_, 16, cudaMemcpyDeviceToDevice), cudaSuccess);
  EXPECT_EQ(RUNTIME(cudaMemcpyAsync)(device_, host_, 32, cudaMemcpyDefault, reinterpret_cast<cudaStream_t>(77)),
            cudaErrorInvalidResourceHandle);
  EXPECT_EQ(AllHeard(), (std::vector<Heard>{{1, At(8), 16}, {1, At(0), 32}, {1, At(0), 138}}));
  ASSERT_EQ(RUNTIME(cudaStreamDestroy)(stream), cudaSuccess);
}

TEST_F(ObserverTest, HearsOfWorkspacesThatLibrariesAreGiven) {
  DRIVER(frugal_sim_note_workspace)(device_, 1000);
  DRIVER(frugal_sim_note_workspace)(nullptr, 1000);
  DRIVER(frugal_sim_note_workspace)(device_, 0);
  EXPECT_EQ(AllHeard(), (std::vector<Heard>{{2, At(0), 1000}}));
}

TEST_F(ObserverTest, NobodyIsToldOnceThereIsNoObserver) {
  DRIVER(frugal_sim_set_observer)(nullptr);
  ASSERT_EQ(RUNTIME(cudaMemcpy)(device_, host_, 16, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_TRUE(AllHeard().empty());
}

TEST_F(ExportsTest, FunctionsThatAreNotSimulatedAreNamedOnce) {
  const auto call = [](void* library, const char* name) {
    return Find(library, name, static_cast<int (*)()>(nullptr))();
  };
  EXPECT_STREQ(DRIVER(frugal_sim_unsupported_functions)(), "");
  EXPECT_EQ(call(Driver(), "cuMulticastCreate"), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(call(Runtime(), "cudaLibraryUnload"), cudaErrorNotSupported);
  EXPECT_EQ(call(Driver(), "cuMulticastCreate"), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(call(Driver(), "cuGetExportTable"), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_STREQ(DRIVER(frugal_sim_unsupported_functions)(), "cuMulticastCreate cudaLibraryUnload");
}

}  // namespace
}  // namespace frugal::sim
