// A history of allocations and frees, as a test plays it.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "allocator/port/device.h"
#include "allocator/port/units.h"

namespace frugal {

// One call of the program's.
struct HistoryEvent {
  bool frees = false;
  uint32_t allocation = 0;
  // Of an allocation.
  Bytes size;
  Stream stream;
  // Of a free: not 0 if `late_stream` goes on using the memory until event `ready` comes.
  Stream late_stream;
  int64_t ready = 0;
};

struct History {
  std::string name;
  std::vector<HistoryEvent> events;
  uint32_t allocation_count = 0;
  // How many events the streams are behind the host.
  int64_t stream_lag = 0;
  // Of a loop: the events before it, which allocate what is there all along.
  int64_t warm_up_end = 0;
};

// A file of bench/generators/README.md's format, with each event on a line of its own, as bench/generators and
// cut.py write it. Ends the process with one line if it cannot be read. Streams are numbered from 1.
History ReadHistory(const std::string& path);

// The files in tests/histories/small, or in the folder that FRUGAL_FAULTS_HISTORIES names, in the order of their
// names.
std::vector<std::string> Histories();
std::string NameOfHistory(const std::string& path);

// The most bytes that are allocated at a time.
Bytes PeakOf(const History& history);

}  // namespace frugal
