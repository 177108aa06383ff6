// What a process says of its memory while it runs, and its form: one line of JSON. docs/monitoring.md describes it for
// people; bindings/frugal_alloc/_command/top reads it.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "bindings/publishing/published_verdicts.h"

namespace frugal {

// Bytes, unless the name says otherwise.
struct LiveGpu {
  int gpu = 0;  // as the process numbers it
  std::string name;
  std::string uuid;  // "": the driver does not say
  int64_t total = 0;
  int64_t free = 0;
  bool is_size_known = false;  // of total and free
  int64_t limit = 0;           // the most that the process may hold; 0: as much as there is
  int64_t in_use = 0;          // in tensors
  int64_t asleep = 0;          // of that, without physical memory
  int64_t held = 0;
  int64_t peak = 0;                  // in tensors at a time
  int64_t stitches = 0;              // how many
  int64_t out_of_memory_errors = 0;  // how many
  std::string last_out_of_memory;    // the verdict on the latest; "": there was none
};

// A private pool, as PoolFigures.
struct LivePool {
  int gpu = 0;
  std::string line;  // where it was made, "train.py:12"; "": not known
  bool captured = false;
  bool released = false;
  int64_t reserved = 0;
  int64_t allocated = 0;
  int64_t idle = 0;
};

struct LiveFigures {
  pid_t pid = 0;
  double age_seconds = 0;  // of the process
  std::vector<std::string> command;
  bool is_simulated = false;
  std::string node;  // the simulated machine that several processes share; "": this process has one to itself
  bool is_tracking = true;
  int64_t epochs = 0;
  std::vector<LiveGpu> gpus;
  std::vector<LivePool> pools;  // the largest first
  std::vector<PublishedVerdict> verdicts;
};

// The document, of less than Publisher::kMostBytes: texts are cut, and what is no UTF-8 is replaced.
std::string WriteLiveDocument(const LiveFigures& figures);

// The command line and the age of this process, as the kernel has them; as far as it says.
std::vector<std::string> CommandLine();
double AgeSeconds();
// Whether its GPUs are simulated, and the simulated machine that it shares with others, as its environment says; "":
// none.
bool IsSimulated();
std::string SimulatedNode();

}  // namespace frugal
