#include "cuda/simulated/libraries/nccl_version.h"

#include <link.h>

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "cuda/simulated/libraries/nccl_folder.h"

namespace frugal::sim::nccl {
namespace {

// Of torch 2.11.
constexpr int kOtherwise = VersionCode(2, 28, 9);
// PyTorch's library for CUDA, in the folder of Python packages.
constexpr std::string_view kName = "/torch/lib/libtorch_cuda.so";

// Puts the path of PyTorch's library for CUDA, if it is this one, into the string.
int NotePyTorch(dl_phdr_info* library, size_t, void* path) {
  const std::string name = library->dlpi_name;
  if (!name.ends_with(kName)) return 0;
  *static_cast<std::string*>(path) = name;
  return 1;
}

}  // namespace

int VersionOfPackage(const std::string& folder) {
  for (const std::string& name : NamesIn(folder)) {
    int cuda = 0;
    int major = 0;
    int minor = 0;
    int patch = 0;
    constexpr int kNumbers = 4;
    const int found = std::sscanf(name.c_str(), "nvidia_nccl_cu%d-%d.%d.%d", &cuda, &major, &minor, &patch);
    if (found == kNumbers && name.ends_with(".dist-info")) return VersionCode(major, minor, patch);
  }
  return 0;
}

int Version() {
  static const int version = [] {
    std::string pytorch;
    dl_iterate_phdr(NotePyTorch, &pytorch);
    // Beside it lie the packages that it needs.
    const std::string packages = pytorch.substr(0, pytorch.size() - std::min(pytorch.size(), kName.size()));
    const int found = pytorch.empty() ? 0 : VersionOfPackage(packages);
    return found != 0 ? found : kOtherwise;
  }();
  return version;
}

}  // namespace frugal::sim::nccl
