#include "cuda/simulated/libraries/nccl_host.h"

#include <glob.h>
#include <link.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

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
  const char* text = has_line ? std::strrchr(line.data(), ')') : nullptr;
  if (text == nullptr || text[1] == '\0') return {};
  text += 2;
  const char state = *text;
  constexpr int kBetween = 19;  // Blanks before the time at which it began.
  for (int i = 0; i < kBetween && text != nullptr; ++i) text = std::strchr(text + 1, ' ');
  return {state, text == nullptr ? 0 : std::strtoull(text, nullptr, 10)};
}

// PyTorch's library for CUDA, in the folder of Python packages.
constexpr std::string_view kPyTorch = "/torch/lib/libtorch_cuda.so";

// Puts the folder that PyTorch's library for CUDA is in, if it is this one, into the string.
int NotePyTorch(dl_phdr_info* library, size_t, void* folder) {
  const std::string_view name = library->dlpi_name;
  if (!name.ends_with(kPyTorch)) return 0;
  *static_cast<std::string*>(folder) = name.substr(0, name.size() - kPyTorch.size());
  return 1;
}

}  // namespace

Process Process::This() {
  const int64_t pid = getpid();
  return {pid, StatusOf(pid).began};
}

bool Process::IsAlive() const {
  const Status status = StatusOf(pid);
  return status.state != 0 && status.state != 'Z' && status.state != 'X' && status.began == began;
}

std::string NewName() {
  static std::atomic<int> names{0};
  std::array<uint64_t, 2> random;
  if (getentropy(random.data(), sizeof(random)) != 0) {
    // Without the kernel's, numbers that no other process has.
    const Process process = Process::This();
    random = {static_cast<uint64_t>(process.pid), process.began};
  }
  char name[64];
  (void)std::snprintf(name, sizeof(name), "%016jx%016jx-%d", static_cast<uintmax_t>(random[0]),
                      static_cast<uintmax_t>(random[1]), ++names);
  return name;
}

std::vector<std::string> PathsLike(const std::string& pattern) {
  glob_t found = {};
  std::vector<std::string> paths;
  if (glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  globfree(&found);
  return paths;
}

int VersionOfPackage(const std::string& folder) {
  for (const std::string& path : PathsLike(folder + "/nvidia_nccl_cu*-*.dist-info")) {
    int major = 0;
    int minor = 0;
    int patch = 0;
    constexpr int kNumbers = 3;
    const char* const name = path.c_str() + folder.size();
    const int found = std::sscanf(name, "/nvidia_nccl_cu%*d-%d.%d.%d", &major, &minor, &patch);
    if (found == kNumbers) return VersionCode(major, minor, patch);
  }
  return 0;
}

int Version() {
  static const int version = [] {
    constexpr int kOtherwise = VersionCode(2, 28, 9);  // Of torch 2.11.
    std::string folder;                                // Beside PyTorch lie the packages that it needs.
    const int found = dl_iterate_phdr(NotePyTorch, &folder) == 0 ? 0 : VersionOfPackage(folder);
    return found != 0 ? found : kOtherwise;
  }();
  return version;
}

}  // namespace frugal::sim::nccl
