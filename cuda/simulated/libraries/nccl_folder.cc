#include "cuda/simulated/libraries/nccl_folder.h"

#include <dirent.h>

namespace frugal::sim::nccl {

std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  DIR* const open = opendir(folder.c_str());
  if (open == nullptr) return names;
  while (const dirent* const entry = readdir(open)) names.emplace_back(entry->d_name);
  closedir(open);
  return names;
}

}  // namespace frugal::sim::nccl
