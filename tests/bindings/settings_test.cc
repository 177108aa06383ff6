#include "bindings/settings/settings.h"

#include <sys/stat.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bindings/settings/pytorch_settings.h"
#include "gtest/gtest.h"
#include "tests/environment.h"

namespace frugal {
namespace {

constexpr Bytes kTotal = GiB(80);
const std::string kCheck = kDefaultCheckLevel == CheckLevel::kFull ? "full" : "fast";

Settings Parsed(absl::string_view text) {
  Settings settings;
  const absl::Status status = ChangeSettings(text, settings);
  EXPECT_TRUE(status.ok()) << status;
  return settings;
}

std::string ErrorOf(absl::string_view text) {
  Settings settings;
  const absl::Status status = ChangeSettings(text, settings);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << text << ": " << status;
  EXPECT_EQ(ToText(settings), ToText(Settings())) << "changed by \"" << text << '"';
  return absl::StrCat(status.message());
}

TEST(SettingsTest, NothingIsLimitedByDefault) {
  EXPECT_GE(Settings().memory_limit.On(kTotal), kTotal);
  EXPECT_EQ(ToText(Settings()),
            "memory_limit:off,idle_release:off,track:on,publish:on,self_check:" + kCheck + ",remap:on");
}

TEST(SettingsTest, MemoryLimitIsASizeOrAPartOfTheGpu) {
  const std::vector<std::pair<std::string, Bytes>> limits = {
      {"20GiB", GiB(20)},          {"20G", GiB(20)},  {"1.5gib", MiB(1536)},
      {"512 MiB", MiB(512)},       {"2048K", MiB(2)}, {"1TiB", GiB(1024)},
      {"2097153", Bytes(2097153)}, {"50%", GiB(40)},  {"0.5%", Bytes(429496729)}};
  for (const auto& [text, limit] : limits)
    EXPECT_EQ(Parsed("memory_limit:" + text).memory_limit.On(kTotal), limit) << text;
}

TEST(SettingsTest, IdleReleaseIsATime) {
  EXPECT_EQ(Parsed("idle_release:30s").idle_release, absl::Seconds(30));
  EXPECT_EQ(Parsed("idle_release:500ms").idle_release, absl::Milliseconds(500));
  EXPECT_EQ(Parsed("idle_release:1.5min").idle_release, absl::Seconds(90));
  EXPECT_EQ(Parsed("idle_release:2h").idle_release, absl::Hours(2));
}

TEST(SettingsTest, CheckIsALevel) {
  EXPECT_EQ(Parsed("self_check:off").check, CheckLevel::kOff);
  EXPECT_EQ(Parsed("self_check:fast").check, CheckLevel::kFast);
  EXPECT_EQ(Parsed("self_check:full").check, CheckLevel::kFull);
  EXPECT_EQ(ErrorOf("self_check:all"), "self_check:all is not possible; self_check is off, fast or full");
}

TEST(SettingsTest, PoolsAreSegmentsOrMapped) {
  EXPECT_FALSE(Parsed("").maps_pools);
  EXPECT_TRUE(Parsed("pools:mapped").maps_pools);
  EXPECT_FALSE(Parsed("pools:mapped,pools:segments").maps_pools);
  EXPECT_NE(ToText(Parsed("pools:mapped")).find(",pools:mapped"), std::string::npos);
  EXPECT_EQ(ErrorOf("pools:on"), "pools:on is not possible; pools is segments or mapped");
}

TEST(SettingsTest, RemapAndPublishAreSwitches) {
  for (const auto& [name, is_on] : std::vector<std::pair<std::string, std::function<bool(const Settings&)>>>{
           {"remap", [](const Settings& settings) { return settings.policy.remap; }},
           {"publish", [](const Settings& settings) { return settings.publish; }}}) {
    EXPECT_TRUE(is_on(Parsed(""))) << name;
    EXPECT_FALSE(is_on(Parsed(name + ":off"))) << name;
    EXPECT_TRUE(is_on(Parsed(name + ":off," + name + ":on"))) << name;
    for (const char* value : {"", "0", "false", "ON"}) {
      EXPECT_NE(ErrorOf(name + ":" + value).find(name + " is on or off"), std::string::npos);
    }
  }
}

TEST(SettingsTest, DriverReserveIsASizeAndOursIfNotSet) {
  EXPECT_EQ(Parsed("").policy.driver_reserve, std::nullopt);
  EXPECT_EQ(Parsed("driver_reserve:1GiB").policy.driver_reserve, GiB(1));
  EXPECT_EQ(Parsed("driver_reserve:1GiB,driver_reserve:off").policy.driver_reserve, Bytes(0));
  EXPECT_EQ(Parsed("").policy.host_reserve, std::nullopt);
  EXPECT_EQ(Parsed("host_reserve:8GiB").policy.host_reserve, GiB(8));
  EXPECT_EQ(Parsed("host_reserve:off").policy.host_reserve, Bytes(0));
  for (const char* value : {"", "10%", "0", "-1GiB", "some", "0.5"}) {
    EXPECT_NE(ErrorOf(std::string("driver_reserve:") + value).find("driver_reserve is a size"), std::string::npos);
  }
}

class DriverCostsTest : public testing::Test {
 protected:
  DriverCostsTest() : path_(testing::TempDir() + "/costs.txt") {}
  ~DriverCostsTest() override { std::remove(path_.c_str()); }

  void Write(const std::string& text) const {
    std::ofstream file(path_);
    file << text;
  }
  Settings Named() const { return Parsed("driver_costs:" + path_); }
  static std::string ErrorOfReading(Settings settings) {
    const absl::Status status = ReadDriverCosts(settings);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_EQ(settings.policy.costs, DriverCosts());
    std::string message(status.message());
    return message;
  }

  const std::string path_;
};

TEST_F(DriverCostsTest, AreReadFromTheFileAndTheTablesWithoutOne) {
  Write("map 3\n# a comment\n");
  Settings settings = Named();
  ASSERT_TRUE(ReadDriverCosts(settings).ok());
  EXPECT_EQ(settings.policy.costs.map, 3000);
  EXPECT_EQ(settings.policy.costs.unmap, DriverCosts().unmap);
  ASSERT_TRUE(ChangeSettings("driver_costs:off", settings).ok());
  ASSERT_TRUE(ReadDriverCosts(settings).ok());
  EXPECT_EQ(settings.policy.costs, DriverCosts());
}

TEST_F(DriverCostsTest, FilesThatAreNoTableAreRefusedWithOneLineThatNamesThem) {
  std::vector<std::pair<std::string, std::string>> refused;
  refused.emplace_back(ErrorOfReading(Named()), "No such file");
  refused.emplace_back(ErrorOfReading(Parsed("driver_costs:" + testing::TempDir())), "it is no file");
  for (const auto& [text, why] : {std::pair("map soon\n", "line 1"), std::pair("mapp 3\n", "mapp")}) {
    Write(text);
    refused.emplace_back(ErrorOfReading(Named()), why);
  }
  Write(std::string(100'000, '\n'));
  refused.emplace_back(ErrorOfReading(Named()), "larger than any");
  ASSERT_EQ(std::remove(path_.c_str()), 0);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  refused.emplace_back(ErrorOfReading(Named()), "it is no file");
  for (const auto& [error, why] : refused) {
    EXPECT_EQ(error.find("driver_costs:"), 0u) << error;
    EXPECT_NE(error.find(why), std::string::npos) << error;
    EXPECT_NE(error.find("doctor --gpu"), std::string::npos) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
}

TEST(SettingsTest, LaterEntriesAndTextsChangeWhatTheyNameOnly) {
  Settings settings = Parsed(" memory_limit : 1GiB , idle_release:3s,, memory_limit:2GiB");
  EXPECT_EQ(ToText(settings),
            "memory_limit:2147483648,idle_release:3s,track:on,publish:on,self_check:" + kCheck + ",remap:on");
  EXPECT_TRUE(ChangeSettings("idle_release:off", settings).ok());
  EXPECT_EQ(ToText(settings),
            "memory_limit:2147483648,idle_release:off,track:on,publish:on,self_check:" + kCheck + ",remap:on");
  EXPECT_TRUE(ChangeSettings("memory_limit:off", settings).ok());
  EXPECT_EQ(ToText(settings), ToText(Settings()));
}

TEST(SettingsTest, TextOfSettingsMakesTheSameSettings) {
  for (const std::string& text :
       {"memory_limit:80%,idle_release:0.25s,track:on,publish:on,self_check:" + kCheck + ",remap:on",
        std::string("memory_limit:12345678,idle_release:off,track:off,publish:off,report_dir:/tmp/a b:c,self_check:off,"
                    "suppressions:leaks.txt,remap:off,driver_reserve:1073741824,host_reserve:2147483648,"
                    "driver_costs:costs.txt"),
        "memory_limit:off,idle_release:off,track:on,publish:on,self_check:" + kCheck +
            ",remap:on,driver_reserve:off"}) {
    EXPECT_EQ(ToText(Parsed(text)), text);
  }
}

TEST(SettingsTest, ErrorsNameKeyValueAndWhatIsAllowed) {
  for (const char* value : {"", "lots", "0", "-1GiB", "0.5", "101%", "%", "GiB", "1e9", "inf", "nan", "1GiB2",
                            "1 G i B", "500", "2097151"}) {
    const std::string error = ErrorOf(std::string("memory_limit:") + value);
    EXPECT_NE(error.find(std::string("memory_limit:") + value), std::string::npos) << error;
    EXPECT_NE(error.find("20GiB"), std::string::npos) << error;
  }
  for (const char* value : {"", "30", "soon", "0s", "-3s", "0.1ms", "1000000h", "inf s"}) {
    const std::string error = ErrorOf(std::string("memory_limit:1GiB,idle_release:") + value);
    EXPECT_NE(error.find(std::string("idle_release:") + value), std::string::npos) << error;
    EXPECT_NE(error.find("30s"), std::string::npos) << error;
  }
  for (const char* entry : {"memory_limt:1GiB", "memory_limit=1GiB", "Memory_limit:1GiB", ":", "x"}) {
    const std::string error = ErrorOf(entry);
    EXPECT_NE(error.find("there are memory_limit, idle_release"), std::string::npos) << error;
  }
}

TEST(SettingsTest, LimitBelowOnePieceOfMemoryIsRefusedWithTheLeastThatIsPossible) {
  EXPECT_EQ(
      ErrorOf("memory_limit:500"),
      "memory_limit:500 is not possible; memory_limit is a size of 2MiB or more (20GiB, 512MiB, bytes), a part of "
      "each GPU (80%), or off");
}

TEST(SettingsTest, NameInAnotherSpellingIsAnsweredWithTheRightOne) {
  for (const char* entry : {"report_dir=/tmp", "reportdir:/tmp", "report-dir:/tmp", "Report_Dir:/tmp"}) {
    EXPECT_NE(ErrorOf(entry).find("\" (did you mean report_dir:?); there are"), std::string::npos) << ErrorOf(entry);
  }
  for (const char* entry : {"report_dire:/tmp", "report", "=", ":", "x"}) {
    EXPECT_EQ(ErrorOf(entry).find("did you mean"), std::string::npos) << ErrorOf(entry);
  }
}

TEST(SettingsTest, EnvironmentIsNamedInItsErrors) {
  setenv("FRUGAL_ALLOC_CONF", "memory_limit:2GiB", 1);
  EXPECT_EQ(SettingsOfEnvironment()->memory_limit.On(kTotal), GiB(2));
  setenv("FRUGAL_ALLOC_CONF", "memory_limit:many", 1);
  EXPECT_EQ(SettingsOfEnvironment().status().message().find("FRUGAL_ALLOC_CONF: memory_limit:many"), 0u);
  unsetenv("FRUGAL_ALLOC_CONF");
  EXPECT_TRUE(SettingsOfEnvironment().ok());
}

TEST(SettingsTest, TheSwitchIsZeroOrOne) {
  unsetenv("FRUGAL_ALLOC");
  EXPECT_FALSE(*IsTurnedOff());
  for (const auto& [value, is_off] : {std::pair("", false), std::pair("1", false), std::pair("0", true)}) {
    setenv("FRUGAL_ALLOC", value, 1);
    EXPECT_EQ(*IsTurnedOff(), is_off) << value;
  }
  setenv("FRUGAL_ALLOC", "no", 1);
  EXPECT_EQ(IsTurnedOff().status().message(), "FRUGAL_ALLOC=no is not possible; it is 0 (off) or 1 (on)");
  unsetenv("FRUGAL_ALLOC");
}

// What settings are made of, and what they are not.
const std::vector<std::string> kPieces = absl::StrSplit(
    "memory_limit|idle_release|track|report_dir|check|suppressions|:|,| "
    "|\n|20GiB|80%|off|on|30s|500ms|full|fast|1|0.5|.|"
    "-|+|1e308|inf|nan|/tmp|=|KiB|\x1b[2J|h|min|9|\xff|%s%n%n|\t|0x10f|T||::",
    '|');

// Settings with bytes changed, lost, moved and made up.
TEST(SettingsTest, AnyTextIsReadOrRefusedInOneLineAndThenChangesNothing) {
  const int64_t count = 20'000 * FromEnvironment("FRUGAL_FUZZ_ROUNDS", 1);
  std::mt19937_64 random(TestSeed());
  int64_t refused = 0;
  for (int64_t i = 0; i < count; ++i) {
    SCOPED_TRACE(i);
    std::string text = "memory_limit:20GiB,idle_release:30s,self_check:fast,report_dir:/tmp/reports";
    for (uint64_t changes = 1 + random() % 6; changes > 0; --changes) {
      const size_t place = random() % (text.size() + 1);
      text.replace(place, random() % 3 == 0 ? random() % 20 : 0, kPieces[random() % kPieces.size()]);
    }
    if (random() % 50 == 0) text.insert(random() % (text.size() + 1), 100'000, static_cast<char>(random()));
    Settings settings;
    const absl::Status status = ChangeSettings(text, settings);
    if (status.ok()) {
      Settings again;
      ASSERT_TRUE(ChangeSettings(ToText(settings), again).ok()) << ToText(settings);
      ASSERT_EQ(ToText(again), ToText(settings));
      ASSERT_GE(settings.memory_limit.On(kTotal), Bytes(0));
      ASSERT_GE(settings.idle_release, absl::Milliseconds(1));
      continue;
    }
    ++refused;
    ASSERT_EQ(ToText(settings), ToText(Settings())) << "half of it was taken";
    ASSERT_LT(status.message().size(), 700u);
    for (const char one : status.message()) ASSERT_TRUE(one >= ' ' && one <= '~') << status.message();
  }
  std::printf("%ld texts, %ld refused\n", count, refused);
  EXPECT_GT(refused, count / 4);
  EXPECT_LT(refused, count);
}

TEST(PyTorchSettings, SayWhetherSegmentsAreExpandable) {
  EXPECT_EQ(ReadExpandableSegments(""), std::nullopt);
  EXPECT_EQ(ReadExpandableSegments("max_split_size_mb:64"), std::nullopt);
  EXPECT_EQ(ReadExpandableSegments("roundup_power2_divisions:[64:8,expandable_segments:True]"), std::nullopt);
  EXPECT_EQ(ReadExpandableSegments("expandable_segments"), std::nullopt);
  EXPECT_EQ(ReadExpandableSegments("max_split_size_mb:64, expandable_segments : True"), true);
  EXPECT_EQ(ReadExpandableSegments("expandable_segments:True,expandable_segments:False"), false);
}

TEST(PyTorchSettings, AreWrittenWithThatChangedAndAllElseAsItWas) {
  EXPECT_EQ(WithExpandableSegments("", true), "expandable_segments:True");
  EXPECT_EQ(WithExpandableSegments("a:[1:2,3:4]", false), "a:[1:2,3:4],expandable_segments:False");
  EXPECT_EQ(WithExpandableSegments("a:1, ", false), "a:1,expandable_segments:False");
  EXPECT_EQ(WithExpandableSegments(" expandable_segments: True, a:1", false), " expandable_segments: False, a:1");
  EXPECT_EQ(WithExpandableSegments("expandable_segments:False,a:1,expandable_segments:True", true),
            "expandable_segments:True,a:1,expandable_segments:True");
}

}  // namespace
}  // namespace frugal
