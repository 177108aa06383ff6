#include "simulated_gpu/libraries/nccl_host.h"

#include <dlfcn.h>
#include <glob.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstdio>
#include <cstring>

namespace frugal::sim::nccl {
namespace {

struct Status {
  char state = 0;  // 0: there is no such process.
  uint64_t began = 0;
};

Status StatusOf(int64_t pid) {
  std::FILE* const file = std::fopen(("/proc/" + std::to_string(pid) + "/stat").c_str(), "re");
  if (file == nullptr) return {};
  std::array<char, 1024> line = {};
  const bool has_line = std::fgets(line.data(), line.size(), file) != nullptr;
  (void)std::fclose(file);
  // The name before it may have blanks and brackets in it.
  const char* const text = has_line ? std::strrchr(line.data(), ')') : nullptr;
  char state = 0;
  unsigned long long began = 0;
  constexpr const char* kFields = ") %c %*d %*d %*d %*d %*d %*d %*d %*d %*d %*d %*d %*d %*d %*d %*d %*d %*d %*d %llu";
  if (text == nullptr || std::sscanf(text, kFields, &state, &began) != 2) return {};
  return {state, began};
}

int VersionCode(int major, int minor, int patch) { return major * 10000 + minor * 100 + patch; }

}  // namespace

Process Process::This() {
  const int64_t pid = getpid();
  return {pid, StatusOf(pid).began};
}

bool Process::IsAlive() const {
  const Status status = StatusOf(pid);
  return status.state != 0 && status.state != 'Z' && status.state != 'X' && status.began == began;
}

int VersionOfPackage(const std::string& folder) {
  int version = 0;
  glob_t packages = {};
  if (glob((folder + "/nvidia_nccl_cu*-*.dist-info").c_str(), GLOB_NOSORT, nullptr, &packages) == 0) {
    int major = 0;
    int minor = 0;
    int patch = 0;
    const char* const name = packages.gl_pathv[0] + folder.size();
    const int numbers = std::sscanf(name, "/nvidia_nccl_cu%*d-%d.%d.%d", &major, &minor, &patch);
    if (numbers == 3) version = VersionCode(major, minor, patch);
  }
  globfree(&packages);
  return version;
}

int Version() {
  static const int version = [] {
    // Beside PyTorch, in whose folder "lib" this library is, lie the packages that it needs.
    char folder[PATH_MAX] = "";
    void* const torch = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
    const bool is_there = torch != nullptr && dlinfo(torch, RTLD_DI_ORIGIN, folder) == 0;
    const int found = is_there ? VersionOfPackage(std::string(folder) + "/../..") : 0;
    return found != 0 ? found : VersionCode(2, 28, 9);  // Of torch 2.11.
  }();
  return version;
}

}  // namespace frugal::sim::nccl
