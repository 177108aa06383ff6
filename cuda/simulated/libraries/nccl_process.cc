#include "cuda/simulated/libraries/nccl_process.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

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

}  // namespace

Process Process::This() {
  const int64_t pid = getpid();
  return {pid, StatusOf(pid).began};
}

bool Process::IsAlive() const {
  const Status status = StatusOf(pid);
  return status.state != 0 && status.state != 'Z' && status.state != 'X' && status.began == began;
}

}  // namespace frugal::sim::nccl
