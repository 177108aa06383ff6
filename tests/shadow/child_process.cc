#include "tests/shadow/child_process.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_format.h"

namespace frugal::shadow {
namespace {

[[noreturn]] void RunAsChild(absl::FunctionRef<std::string()> body, int output, int most_seconds) {
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  const rlimit seconds{static_cast<rlim_t>(most_seconds), static_cast<rlim_t>(most_seconds) + 1};
  setrlimit(RLIMIT_CPU, &seconds);
  const std::string failure = body();
  std::fputs(failure.c_str(), stderr);
  std::fflush(nullptr);
  _exit(failure.empty() ? 0 : 1);
}

}  // namespace

std::string RunInChild(absl::FunctionRef<std::string()> body, int most_seconds) {
  std::array<int, 2> ends;
  std::fflush(nullptr);
  if (pipe(ends.data()) != 0) return "no pipe";
  const pid_t child = fork();
  if (child < 0) return "no process";
  if (child == 0) {
    close(ends[0]);
    RunAsChild(body, ends[1], most_seconds);
  }
  close(ends[1]);
  std::string output;
  std::array<char, 4096> buffer;
  for (ssize_t count; (count = read(ends[0], buffer.data(), buffer.size())) > 0;) {
    output.append(buffer.data(), static_cast<size_t>(count));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU) return absl::StrFormat("took more than %d s", most_seconds);
  if (!output.empty()) return output;
  return WIFSIGNALED(status) ? absl::StrFormat("ended by signal %d", WTERMSIG(status)) : "failed";
}

void* MapShared(size_t size) {
  void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return memory;
}

}  // namespace frugal::shadow
