// Many random programs, one after another; what fails is made small and printed as a program.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/shadow/operation.h"
#include "tests/shadow/random_operations.h"
#include "tests/shadow/shadow_run.h"

namespace frugal::shadow {

// "" or what was not as it must be.
std::string Run(const Program& program, CheckLevel level, const Between& between = nullptr);

// Draws a program from `choices` and runs it as it is drawn, up to so many operations.
struct DrawnRun {
  Program program;  // as far as it was run
  std::string failure;
  Tally tally;
};
DrawnRun RunDrawn(Choices& choices, int64_t most_operations, CheckLevel level, Mix mix = Mix::kTight);

struct Campaign {
  uint64_t first_seed = 1;
  int64_t operations = 1'000'000;  // in all
  int64_t operations_of_program = 2000;
  CheckLevel level = CheckLevel::kFull;
  Mix mix = Mix::kTight;
  Between between = nullptr;
  // If there are any: those of a fuzzer, which one program is drawn from instead of the seeds' programs.
  std::vector<uint8_t> bytes = {};
};

struct CampaignResult {
  Tally tally;
  uint64_t programs = 0;
  double seconds = 0;
  // Of the first program that failed; then the others were not run.
  std::string failure;
  uint64_t failed_seed = 0;
  Program shrunk;
};

// Runs programs of the seeds from the first up, each in turn, in a process of its own for all.
CampaignResult RunCampaign(const Campaign& campaign);

// What a person reads: counts, seeds and seconds, and the program that fails.
std::string ToText(const Campaign& campaign, const CampaignResult& result);

}  // namespace frugal::shadow
