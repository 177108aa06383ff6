#include "bindings/settings/settings.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace frugal {
namespace {

constexpr char kOff[] = "off";
constexpr char kMapped[] = "mapped";
constexpr char kSegments[] = "segments";
// The driver gives out memory in pieces of this size: below it nothing could be allocated.
constexpr Bytes kLeastMemoryLimit = MiB(2);

constexpr std::array<std::pair<absl::string_view, CheckLevel>, 3> kCheckLevels = {
    {{kOff, CheckLevel::kOff}, {"fast", CheckLevel::kFast}, {"full", CheckLevel::kFull}}};

struct Unit {
  absl::string_view name;
  double factor;
};

// What somebody gave us, for a message of one line: printable, and not without end.
std::string Shown(absl::string_view text) {
  constexpr size_t kMost = 100;
  const std::string shown = absl::CHexEscape(text.substr(0, kMost));
  return text.size() > kMost ? shown + "..." : shown;
}

// A number above 0 with a unit of `units`, in terms of the unit with factor 1; the longer names come first.
template <size_t N>
std::optional<double> ParseQuantity(absl::string_view text, const std::array<Unit, N>& units) {
  double factor = 0;
  for (const Unit& unit : units) {
    if (!absl::EndsWithIgnoreCase(text, unit.name)) continue;
    text.remove_suffix(unit.name.size());
    factor = unit.factor;
    break;
  }
  text = absl::StripAsciiWhitespace(text);
  double number = 0;
  // "nan", "inf" and "1e5" are numbers elsewhere.
  if (text.find_first_not_of("0123456789.") != absl::string_view::npos) return std::nullopt;
  if (!absl::SimpleAtod(text, &number) || number <= 0 || factor == 0) return std::nullopt;
  return number * factor;
}

// At least a byte: less is a fraction that somebody meant as a part of the GPU.
std::optional<Bytes> ParseSize(absl::string_view value) {
  constexpr double kKiB = 1024;
  constexpr std::array<Unit, 9> kSizes = {{{"KiB", kKiB},
                                           {"MiB", kKiB * kKiB},
                                           {"GiB", kKiB * kKiB * kKiB},
                                           {"TiB", kKiB * kKiB * kKiB * kKiB},
                                           {"K", kKiB},
                                           {"M", kKiB * kKiB},
                                           {"G", kKiB * kKiB * kKiB},
                                           {"T", kKiB * kKiB * kKiB * kKiB},
                                           {"", 1}}};
  constexpr double kMostBytes = 0x1p60;
  const std::optional<double> size = ParseQuantity(value, kSizes);
  if (!size.has_value() || *size < 1 || *size > kMostBytes) return std::nullopt;
  return Bytes(static_cast<int64_t>(*size));
}

std::optional<bool> ParseSwitch(absl::string_view value) {
  if (value != "on" && value != kOff) return std::nullopt;
  return value == "on";
}

// A regular file: reading another kind may wait for ever.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path) {
  constexpr size_t kMost = 64 << 10;
  const auto failed = [] { return absl::InvalidArgumentError(std::strerror(errno)); };
  const int file = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return failed();
  const absl::Cleanup close_file = [file] { close(file); };
  struct stat facts;
  if (fstat(file, &facts) != 0) return failed();
  if (!S_ISREG(facts.st_mode)) return absl::InvalidArgumentError("it is no file");
  std::string text(kMost + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t read_now = read(file, text.data() + size, text.size() - size);
    if (read_now < 0) return failed();
    if (read_now == 0) break;
    size += static_cast<size_t>(read_now);
  }
  if (size > kMost) return absl::InvalidArgumentError("it is larger than any table of costs");
  text.resize(size);
  return text;
}

// --- One function for each key: false, the value is not allowed.

bool SetMemoryLimit(absl::string_view value, Settings& settings) {
  if (value == kOff) {
    settings.memory_limit = MemoryLimitSetting();
    return true;
  }
  if (const std::optional<double> percent = ParseQuantity(value, std::array<Unit, 1>{{{"%", 1}}});
      percent.has_value()) {
    if (*percent > 100) return false;
    settings.memory_limit = MemoryLimitSetting::Part(*percent / 100);
    return true;
  }
  const std::optional<Bytes> size = ParseSize(value);
  if (!size.has_value() || *size < kLeastMemoryLimit) return false;
  settings.memory_limit = MemoryLimitSetting(*size);
  return true;
}

bool SetIdleRelease(absl::string_view value, Settings& settings) {
  constexpr std::array<Unit, 5> kTimes = {{{"ms", 0.001}, {"min", 60}, {"s", 1}, {"h", 3600}, {"", 0}}};
  constexpr double kLeast = 0.001;
  constexpr double kMost = 365.0 * 24 * 3600;
  if (value == kOff) {
    settings.idle_release = absl::InfiniteDuration();
    return true;
  }
  const std::optional<double> seconds = ParseQuantity(value, kTimes);
  if (!seconds.has_value() || *seconds < kLeast || *seconds > kMost) return false;
  settings.idle_release = absl::Seconds(*seconds);
  return true;
}

constexpr auto kRemap = [](auto& settings) -> auto& { return settings.policy.remap; };

// kField: a member of Settings, or a function that finds it in them.
template <auto kField>
bool SetSwitch(absl::string_view value, Settings& settings) {
  const std::optional<bool> is_on = ParseSwitch(value);
  if (is_on.has_value()) std::invoke(kField, settings) = *is_on;
  return is_on.has_value();
}

template <auto kField>
std::string SwitchText(const Settings& settings) {
  return std::invoke(kField, settings) ? "on" : kOff;
}

template <std::optional<Bytes> PolicySettings::*kReserve>
bool SetReserve(absl::string_view value, Settings& settings) {
  const std::optional<Bytes> size = value == kOff ? Bytes(0) : ParseSize(value);
  if (size.has_value()) settings.policy.*kReserve = size;
  return size.has_value();
}

bool SetDriverCosts(absl::string_view value, Settings& settings) {
  const absl::string_view file = value == kOff ? "" : value;
  settings.driver_costs.assign(file.data(), file.size());
  return !value.empty();
}

template <std::optional<Bytes> PolicySettings::*kReserve>
std::string ReserveText(const Settings& settings) {
  const std::optional<Bytes> reserve = settings.policy.*kReserve;
  if (!reserve.has_value()) return "";
  return *reserve == Bytes(0) ? kOff : absl::StrCat(reserve->count());
}

template <std::string Settings::*kPath>
bool SetPath(absl::string_view value, Settings& settings) {
  (settings.*kPath).assign(value.data(), value.size());
  return true;
}

template <std::string Settings::*kPath>
std::string PathText(const Settings& settings) {
  return settings.*kPath;
}

bool SetCheck(absl::string_view value, Settings& settings) {
  for (const auto& [name, level] : kCheckLevels) {
    if (value != name) continue;
    settings.check = level;
    return true;
  }
  return false;
}

std::string CheckText(const Settings& settings) {
  for (const auto& [name, level] : kCheckLevels) {
    if (settings.check == level) return {name.begin(), name.end()};
  }
  return "";
}

bool SetPools(absl::string_view value, Settings& settings) {
  settings.maps_pools = value == kMapped;
  return settings.maps_pools || value == kSegments;
}

std::string IdleReleaseText(const Settings& settings) {
  if (settings.idle_release == absl::InfiniteDuration()) return kOff;
  return absl::StrCat(absl::ToDoubleSeconds(settings.idle_release), "s");
}

struct Key {
  absl::string_view name;
  absl::string_view allowed;
  bool (*set)(absl::string_view value, Settings& settings);
  std::string (*text)(const Settings& settings);
};

constexpr std::array<Key, 12> kKeys = {{
    {"memory_limit", "a size of 2MiB or more (20GiB, 512MiB, bytes), a part of each GPU (80%), or off", &SetMemoryLimit,
     [](const Settings& settings) { return settings.memory_limit.ToText(); }},
    {"idle_release", "a time (30s, 500ms, 10min), or off", &SetIdleRelease, &IdleReleaseText},
    {"track", "on or off", &SetSwitch<&Settings::track>, &SwitchText<&Settings::track>},
    {"publish", "on or off", &SetSwitch<&Settings::publish>, &SwitchText<&Settings::publish>},
    {"report_dir", "a folder, or off", &SetPath<&Settings::report_dir>, &PathText<&Settings::report_dir>},
    {"self_check", "off, fast or full", &SetCheck, &CheckText},
    {"suppressions", "a file", &SetPath<&Settings::suppressions>, &PathText<&Settings::suppressions>},
    {"remap", "on or off", &SetSwitch<kRemap>, &SwitchText<kRemap>},
    {"pools", "segments or mapped", &SetPools,
     [](const Settings& settings) { return std::string(settings.maps_pools ? kMapped : ""); }},
    {"driver_reserve", "a size (1GiB, 512MiB, bytes), or off", &SetReserve<&PolicySettings::driver_reserve>,
     &ReserveText<&PolicySettings::driver_reserve>},
    {"host_reserve", "a size (8GiB, 512MiB, bytes), or off", &SetReserve<&PolicySettings::host_reserve>,
     &ReserveText<&PolicySettings::host_reserve>},
    {"driver_costs", "a file, or off", &SetDriverCosts, [](const Settings& settings) { return settings.driver_costs; }},
}};

const Key* FindKey(absl::string_view name) {
  for (const Key& key : kKeys) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

// The key that somebody meant who wrote another sign than "_" or ":", or capital letters; null: none is alike.
const Key* KeyMeantBy(absl::string_view entry) {
  const auto letters_of = [](absl::string_view text) {
    std::string letters;
    for (const char one : text.substr(0, text.find('='))) {
      if (absl::ascii_isalpha(one)) letters.push_back(absl::ascii_tolower(one));
    }
    return letters;
  };
  for (const Key& key : kKeys) {
    if (letters_of(key.name) == letters_of(entry)) return &key;
  }
  return nullptr;
}

absl::Status UnknownKey(absl::string_view name) {
  const auto append = [](std::string* out, const Key& key) { out->append(key.name.data(), key.name.size()); };
  const Key* const meant = KeyMeantBy(name);
  const std::string hint = meant == nullptr ? "" : absl::StrCat(" (did you mean ", meant->name, ":?)");
  return absl::InvalidArgumentError(absl::StrCat("there is no setting \"", Shown(name), "\"", hint, "; there are ",
                                                 absl::StrJoin(kKeys, ", ", append)));
}

absl::Status ChangeOne(absl::string_view entry, Settings& settings) {
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(entry, absl::MaxSplits(':', 1));
  const absl::string_view name = absl::StripAsciiWhitespace(parts.first);
  const absl::string_view value = absl::StripAsciiWhitespace(parts.second);
  const Key* const key = FindKey(name);
  if (key == nullptr) return UnknownKey(name);
  if (key->set(value, settings)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, ":", Shown(value), " is not possible; ", name, " is ", key->allowed));
}

}  // namespace

std::string MemoryLimitSetting::ToText() const {
  if (!exists()) return kOff;
  return fraction_ < 1.0 ? absl::StrCat(fraction_ * 100, "%") : absl::StrCat(size_.count());
}

absl::Status ChangeSettings(absl::string_view text, Settings& settings) {
  Settings changed = settings;
  for (const absl::string_view entry : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    if (absl::Status status = ChangeOne(entry, changed); !status.ok()) return status;
  }
  settings = changed;
  return absl::OkStatus();
}

std::string ToText(const Settings& settings) {
  std::vector<std::string> entries;
  entries.reserve(kKeys.size());
  for (const Key& key : kKeys) {
    const std::string value = key.text(settings);
    if (!value.empty()) entries.push_back(absl::StrCat(key.name, ":", value));
  }
  return absl::StrJoin(entries, ",");
}

absl::StatusOr<std::string> SettingText(absl::string_view key, const Settings& settings) {
  const Key* const found = FindKey(key);
  if (found == nullptr) return UnknownKey(key);
  return found->text(settings);
}

absl::Status ReadDriverCosts(Settings& settings) {
  const std::string& path = settings.driver_costs;
  absl::StatusOr<DriverCosts> costs = DriverCosts();
  if (!path.empty()) {
    const absl::StatusOr<std::string> text = ReadSmallFile(path);
    costs = text.ok() ? ParseDriverCosts(*text) : absl::StatusOr<DriverCosts>(text.status());
  }
  if (!costs.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("driver_costs:", Shown(path),
                                                   " is not possible: ", costs.status().message(),
                                                   "; name a file that frugal-alloc doctor --gpu has written, or off"));
  }
  settings.policy.costs = *costs;
  return absl::OkStatus();
}

absl::StatusOr<Settings> SettingsOfEnvironment() {
  Settings settings;
  const char* const text = std::getenv("FRUGAL_ALLOC_CONF");
  if (text == nullptr) return settings;
  const absl::Status status = ChangeSettings(text, settings);
  if (!status.ok()) return absl::InvalidArgumentError(absl::StrCat("FRUGAL_ALLOC_CONF: ", status.message()));
  return settings;
}

absl::StatusOr<bool> IsTurnedOff() {
  const char* const value = std::getenv("FRUGAL_ALLOC");
  const absl::string_view text = value == nullptr ? "" : value;
  if (text == "0") return true;
  if (text.empty() || text == "1") return false;
  return absl::InvalidArgumentError(
      absl::StrCat("FRUGAL_ALLOC=", Shown(text), " is not possible; it is 0 (off) or 1 (on)"));
}

}  // namespace frugal
