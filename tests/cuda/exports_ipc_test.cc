// Memory of the simulated GPU that one process hands to another through the exported functions.

#include <cuda_runtime_api.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "gtest/gtest.h"
#include "tests/cuda/exports_fixture.h"

namespace frugal::sim {
namespace {

// A real other process, which starts anew: a child that only forked would have this one's machine.
TEST_F(ExportsTest, AnotherProcessOpensAnIpcHandle) {
  char* device = nullptr;
  ASSERT_EQ(RUNTIME(cudaMalloc)(reinterpret_cast<void**>(&device), kPage), cudaSuccess);
  std::strcpy(device, "from the parent");
  cudaIpcMemHandle_t handle;
  ASSERT_EQ(RUNTIME(cudaIpcGetMemHandle)(&handle, device), cudaSuccess);
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  ASSERT_EQ(write(pipe_ends[1], &handle, sizeof(handle)), static_cast<ssize_t>(sizeof(handle)));
  const pid_t child = fork();
  if (child == 0) {
    setenv("FRUGAL_TEST_IPC_PIPE", std::to_string(pipe_ends[0]).c_str(), 1);
    execl("/proc/self/exe", "exports_ipc_test", "--gtest_filter=IpcChild.DISABLED_Run",
          "--gtest_also_run_disabled_tests", static_cast<char*>(nullptr));
    _exit(127);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_STREQ(device, "from the child");
  ASSERT_EQ(RUNTIME(cudaFree)(device), cudaSuccess);
}

// The other process of AnotherProcessOpensAnIpcHandle.
TEST(IpcChild, DISABLED_Run) {
  const char* pipe_end = std::getenv("FRUGAL_TEST_IPC_PIPE");
  ASSERT_NE(pipe_end, nullptr);
  cudaIpcMemHandle_t handle;
  ASSERT_EQ(read(std::atoi(pipe_end), &handle, sizeof(handle)), static_cast<ssize_t>(sizeof(handle)));
  char* device = nullptr;
  ASSERT_EQ(RUNTIME(cudaIpcOpenMemHandle)(reinterpret_cast<void**>(&device), handle, 0), cudaSuccess);
  ASSERT_STREQ(device, "from the parent");
  std::strcpy(device, "from the child");
  ASSERT_EQ(RUNTIME(cudaIpcCloseMemHandle)(device), cudaSuccess);
}

}  // namespace
}  // namespace frugal::sim
