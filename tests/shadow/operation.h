// The vocabulary of the shadow tests: operations on the allocator of one device, and programs made of them.
//
// A program is drawn from bytes (random_operations.h), written as text, one operation a line, and read back from it:
//
//   device 24 pages movable
//   allocate #1 3000000 least 0 on 1
//   use #1 on 2 for 400
//   free #1
//
// A block is known by the number that its allocation gave it, so that a program means the same after some of its
// operations have been taken out: one that speaks of a block that does not exist does nothing.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "allocator/port/policy_options.h"
#include "allocator/port/units.h"

namespace frugal::shadow {

// Streams are numbered from 1.
inline constexpr uint8_t kStreams = 4;

// What each of them means is said by its line in kPatterns.
enum class OperationKind : uint8_t {
  kAllocate,
  kAllocateSegment,
  kFree,
  kFreeInside,
  kRecordStream,
  kUse,
  kWork,
  kPass,
  kBeginCapture,
  kEndCapture,
  kTrim,
  kMarkUse,
  kReturnIdle,
  kSetLimit,
  kFail,
  kEndEpoch,
  kSnapshot,
  kResetPeaks,
  kCache,
  kGarbage,
  kMeanwhile,
  kSetOption,
  kTag,
  kFallAsleep,
  kLetGo,
  kTakeBack,
  kWakeUp,
  kAllocateInPool,
  kKeepPool,
  kReleasePool,
  kFailAll,
};

struct Operation {
  OperationKind kind = OperationKind::kPass;
  uint8_t stream = 1;
  uint8_t call = 0;    // in sim::kCallKindNames
  uint8_t error = 0;   // in kErrors
  uint8_t option = 0;  // in kOptions
  uint32_t block = 0;
  uint32_t pool = 0;
  int64_t amount = 0;
  int64_t second = 0;
  friend bool operator==(const Operation&, const Operation&) = default;
};

// What a call can be made to fail with; late: the call succeeds, and the next one of any kind fails.
inline constexpr std::array<std::string_view, 7> kErrors = {"out_of_memory",      "invalid_value",      "unknown",
                                                            "late_out_of_memory", "late_invalid_value", "late_unknown",
                                                            "capture_unsupported"};

// The policy's constants, by name, and the figures that they have. A program may set each to any number from 1 up.
#define FRUGAL_NAME_OPTION(name, figure, what) std::string_view(#name),
inline constexpr std::array kOptions = {FRUGAL_POLICY_OPTIONS(FRUGAL_NAME_OPTION)};
#undef FRUGAL_NAME_OPTION
#define FRUGAL_FIGURE_OF_OPTION(name, figure, what) int64_t{figure},
inline constexpr std::array kUsualOptions = {FRUGAL_POLICY_OPTIONS(FRUGAL_FIGURE_OF_OPTION)};
#undef FRUGAL_FIGURE_OF_OPTION

// How each kind is written. B: a block, S: a stream, P: a pool, A: the amount, C: the second, K: a kind of driver call,
// E: an error, O: an option, V: what it is set to. Times are in nanoseconds, sizes in bytes, or in pages where it says
// so.
inline constexpr std::array<std::string_view, 31> kPatterns = {
    "allocate B A least C on S",
    "allocate_segment B A least C on S",  // memory of cudaMalloc
    "free B",
    "free_inside B at A",  // of a block that was handed out, but not where it starts: must be refused
    "record B on S",       // another stream uses the block
    "use B on S for A",    // the same, with work on it that takes so long
    "work on S for A",     // that touches no block
    "pass A",              // time
    "begin_capture S",
    "end_capture S",
    "trim A pages",  // 0: all
    "mark_use",
    "return_idle A pages",
    "limit A pages others C",  // 0: none; others hold so many pages of it
    "fail K A with E",         // the driver call of that kind that is the A-th from now on
    "end_epoch A",             // 0: ends one, 1: collapses all, 2: halves their number
    "snapshot",                // what the allocator says of its blocks is compared
    "reset_peaks",
    "cache A pages",  // of the device's memory become somebody else's, who gives them back when asked
    "garbage B",      // the block is freed when garbage is collected
    "meanwhile A",    // the next A operations are those of another thread, while the allocator asks for memory
    "option O V",     // one of the policy's constants is another from now on
    "tag B A",
    "fall_asleep A",  // this and those below: of the blocks with this tag; 0: of all. See Sleep for their order, out of
                      // which they do nothing
    "let_go",
    "take_back A",
    "wake_up A",
    "allocate B A least C in pool P on S",  // graphs may read every other pool; of pools the models know nothing
    "keep_pool P",
    "release_pool P",
    "fail K A and later with E",
};
static_assert(kPatterns.size() == static_cast<size_t>(OperationKind::kFailAll) + 1);

struct Program {
  int64_t pages = 24;   // that the device has
  bool movable = true;  // false: its memory is pieces of cudaMalloc
  std::vector<Operation> operations;
};

std::string ToText(const Operation& operation);
std::string ToText(const Program& program);

// Lines that are empty or begin with '#' and a space are comments. kInvalidArgument names the line.
absl::StatusOr<Program> ParseProgram(std::string_view text);

}  // namespace frugal::shadow
