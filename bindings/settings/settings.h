// What a user may choose, and the one parser for it: FRUGAL_ALLOC_CONF, the keyword arguments of
// frugal_alloc.enable() and frugal_alloc::Options all come here as "key:value,key:value".

#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "allocator/port/check.h"
#include "allocator/port/driver_costs.h"
#include "allocator/port/units.h"

namespace frugal {

// The most that a process may hold of each GPU: a size, or a part of the GPU's memory.
class MemoryLimitSetting {
 public:
  // As much as there is.
  MemoryLimitSetting() = default;
  explicit MemoryLimitSetting(Bytes size) : size_(size) {}
  // REQUIRES: 0 < fraction <= 1.
  static MemoryLimitSetting Part(double fraction) {
    MemoryLimitSetting limit;
    limit.fraction_ = fraction;
    return limit;
  }

  // On a GPU with `total` of memory; more than that if there is no limit.
  Bytes On(Bytes total) const {
    return fraction_ < 1.0 ? Bytes(static_cast<int64_t>(fraction_ * static_cast<double>(total.count()))) : size_;
  }
  bool exists() const { return fraction_ < 1.0 || size_ < kUnlimited; }
  // As the parser reads it: "21474836480", "80%" or "off".
  std::string ToText() const;

 private:
  Bytes size_ = kUnlimited;
  double fraction_ = 1.0;
};

// A choice, not a measurement: see docs/hardware.md.
inline constexpr Bytes kDriverReserve = MiB(64);

// What the policy is told of the machine, and of what others do with its memory.
struct PolicySettings {
  // What calls of this machine's driver take.
  DriverCosts costs;
  // Memory of each GPU that is left to the driver; not set: kDriverReserve.
  std::optional<Bytes> driver_reserve;
  // Memory that is left to the host, where a GPU's is the host's; not set: UnifiedMemory::kReservedPart.
  std::optional<Bytes> host_reserve;
  // Whether physical memory may move once it is mapped.
  bool remap = true;
};

// The keys are documented in docs/tuning.md.
struct Settings {
  MemoryLimitSetting memory_limit;
  // Memory that was free for so long goes back to the driver.
  absl::Duration idle_release = absl::InfiniteDuration();
  // Whether allocations are recorded by the line that asks for them.
  bool track = true;
  // Whether this process answers its user's `frugal-alloc top`, and shares idle memory with his other processes.
  bool publish = true;
  // Where reports are written: a folder, "off", or "" for the default, which the Python package knows.
  std::string report_dir;
  // How much the allocator verifies while it works.
  CheckLevel check = kDefaultCheckLevel;
  // Whether memory that CUDA graphs read is mapped, and can sleep; see MemoryKind::kFixed.
  bool maps_pools = false;
  // The file that names what is not to be reported; "" for none.
  std::string suppressions;
  // The file that policy.costs are read from; "" for the table's.
  std::string driver_costs;
  PolicySettings policy;
};

// Changes what `text` names and leaves the rest; "" changes nothing. kInvalidArgument: one line that names the key, the
// value and what is allowed; nothing has changed then.
absl::Status ChangeSettings(absl::string_view text, Settings& settings);
// Every key that has a value, as ChangeSettings reads it.
std::string ToText(const Settings& settings);
// One of them. kInvalidArgument: there is no such key.
absl::StatusOr<std::string> SettingText(absl::string_view key, const Settings& settings);

// Reads the costs in `settings` from the file that they name. kInvalidArgument: one line that names the file and says
// what to do; nothing has changed then.
absl::Status ReadDriverCosts(Settings& settings);

// The defaults, changed by FRUGAL_ALLOC_CONF. kInvalidArgument as above.
absl::StatusOr<Settings> SettingsOfEnvironment();

// FRUGAL_ALLOC=0: the user wants none of us, whatever the program or its environment asks for. kInvalidArgument: it is
// neither 0 nor 1.
absl::StatusOr<bool> IsTurnedOff();

}  // namespace frugal
