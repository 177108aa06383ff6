#include "tests/histories/history.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace frugal {
namespace {

constexpr char kFolder[] = "tests/histories/small";

[[noreturn]] void Refuse(const std::string& path, const std::string& line) {
  std::fprintf(stderr, "%s is no history with an event on each line: %.60s\n", path.c_str(), line.c_str());
  std::exit(2);
}

// 0 if there is none.
int64_t NumberAfter(const std::string& key, const std::string& line) {
  const size_t at = line.find(key);
  return at == std::string::npos ? 0 : std::atoll(line.c_str() + at + key.size());
}

Stream StreamOf(long long number) { return Stream{static_cast<uint64_t>(number) + 1}; }

}  // namespace

History ReadHistory(const std::string& path) {
  History history;
  history.name = NameOfHistory(path);
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line) || line.find("frugal_alloc_history") == std::string::npos) Refuse(path, line);
  history.stream_lag = NumberAfter("\"stream_lag\": ", line);
  history.warm_up_end = NumberAfter("\"warm_up_end\": ", line);
  while (std::getline(file, line) && line.starts_with('[')) {
    long long n[4] = {};
    const int count = std::sscanf(line.c_str(), "[%lld,%lld,%lld,%lld]", &n[0], &n[1], &n[2], &n[3]);
    HistoryEvent event;
    event.frees = n[0] == 1;
    event.allocation = static_cast<uint32_t>(n[1]);
    if (!event.frees && count == 4) {
      event.size = Bytes(n[2]);
      event.stream = StreamOf(n[3]);
      history.allocation_count = event.allocation + 1;
    } else if (event.frees && (count == 2 || count == 4)) {
      event.late_stream = StreamOf(n[2]);
      event.ready = n[3];
    } else {
      Refuse(path, line);
    }
    history.events.push_back(event);
  }
  if (history.events.empty()) Refuse(path, line);
  return history;
}

std::vector<std::string> Histories() {
  const char* folder = std::getenv("FRUGAL_FAULTS_HISTORIES");
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder == nullptr ? kFolder : folder)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string NameOfHistory(const std::string& path) { return std::filesystem::path(path).stem(); }

Bytes PeakOf(const History& history) {
  std::vector<Bytes> sizes(history.allocation_count);
  Bytes live;
  Bytes peak;
  for (const HistoryEvent& event : history.events) {
    Bytes& size = sizes[event.allocation];
    if (event.frees) {
      live -= size;
    } else {
      size = event.size;
      live += size;
    }
    peak = std::max(peak, live);
  }
  return peak;
}

}  // namespace frugal
