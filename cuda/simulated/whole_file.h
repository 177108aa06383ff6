// A small file that somebody named, as text.

#ifndef FRUGAL_CUDA_SIMULATED_WHOLE_FILE_H_
#define FRUGAL_CUDA_SIMULATED_WHOLE_FILE_H_

#include <sys/stat.h>

#include <fstream>
#include <iterator>
#include <optional>
#include <string>

namespace frugal::sim {

// nullopt if `path` is no plain file of at most 1 MiB that can be read.
inline std::optional<std::string> WholeFile(const std::string& path) {
  constexpr off_t kMost = 1 << 20;
  struct stat status;
  // Before it is opened: to open a pipe is to wait for whoever writes into it.
  if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size > kMost) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace frugal::sim

#endif  // FRUGAL_CUDA_SIMULATED_WHOLE_FILE_H_
