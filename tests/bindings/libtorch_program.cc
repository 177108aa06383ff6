// A program on LibTorch that knows nothing of frugal_alloc: what the library for LD_PRELOAD is for. It says how the
// memory of a tensor was asked of the simulated driver.

#include <ATen/Functions.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <exception>

int main() {
  try {
    const at::Tensor tensor = at::empty({1 << 20}, at::TensorOptions().device(at::kCUDA));
    std::printf("tensor on GPU %d\n", static_cast<int>(tensor.device().index()));
  } catch (const std::exception& error) {
    std::printf("error: %.60s\n", error.what());
    return 1;
  }
  const auto calls = reinterpret_cast<uint64_t (*)(const char*)>(dlsym(RTLD_DEFAULT, "frugal_sim_calls"));
  if (calls != nullptr) std::printf("%s\n", calls("create") > 0 ? "handles" : "segments");
  return 0;
}
