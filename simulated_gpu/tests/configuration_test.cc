#include "simulated_gpu/machine/configuration.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "simulated_gpu/machine/machine.h"
#include "tests/environment.h"

namespace frugal::sim {
namespace {

class ConfigurationTest : public ::testing::Test {
 protected:
  ~ConfigurationTest() override {
    for (const std::string& name : names_) unsetenv(name.c_str());
  }

  void Set(const std::string& name, const std::string& value) {
    setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
    names_.push_back(name);
  }
  bool Read() { return Configuration::FromEnvironment(&configuration_, &problem_); }

  Configuration configuration_;
  std::string problem_;

 private:
  std::vector<std::string> names_;
};

TEST_F(ConfigurationTest, EmptyEnvironmentGivesTheDefaults) {
  Set("FRUGAL_SIM_MEMORY", "");
  ASSERT_TRUE(Read());
  EXPECT_EQ(configuration_.memory, GiB(16));
  EXPECT_EQ(configuration_.context, MiB(512));
  EXPECT_EQ(configuration_.gpus, 1);
  EXPECT_TRUE(configuration_.virtual_memory);
  EXPECT_EQ(configuration_.backing, Backing::kMemory);
}

TEST_F(ConfigurationTest, SizesAreBytesOrHaveAUnit) {
  Set("FRUGAL_SIM_MEMORY", "25769803776");
  Set("FRUGAL_SIM_CONTEXT", "300MiB");
  ASSERT_TRUE(Read());
  EXPECT_EQ(configuration_.memory, GiB(24));
  EXPECT_EQ(configuration_.context, MiB(300));
}

TEST_F(ConfigurationTest, EachVariableThatIsNotUnderstoodIsNamed) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"FRUGAL_SIM_MEMORY", "lots"},      {"FRUGAL_SIM_MEMORY", "-1"},      {"FRUGAL_SIM_MEMORY", "99999999999GiB"},
      {"FRUGAL_SIM_CONTEXT", "1 GiB"},    {"FRUGAL_SIM_GPUS", "0"},         {"FRUGAL_SIM_GPUS", "17"},
      {"FRUGAL_SIM_KERNEL_NS", "1e6"},    {"FRUGAL_SIM_BACKING", "disk"},   {"FRUGAL_SIM_VMM", "no"},
      {"FRUGAL_SIM_VERBOSE", "verbose"},  {"FRUGAL_SIM_FAULTS", "create"},  {"FRUGAL_SIM_MAPPINGS", "0"},
      {"FRUGAL_SIM_MAP_COUNT", "-1"},     {"FRUGAL_SIM_ADDRESSES", "all"},  {"FRUGAL_SIM_FULL", "yes"},
      {"FRUGAL_SIM_MODULE", "large"},     {"FRUGAL_SIM_DRIVER_TIME", "on"}, {"FRUGAL_SIM_COSTS", "/no/such/file"},
      {"FRUGAL_SIM_GPU", "colour=green"}, {"FRUGAL_SIM_KEEP", "little"},    {"FRUGAL_SIM_TIME", "fast"}};
  for (const auto& [name, value] : wrong) {
    SCOPED_TRACE(::testing::Message() << name << "=" << value);
    setenv(name.c_str(), value.c_str(), 1);
    EXPECT_FALSE(Read());
    EXPECT_TRUE(problem_.starts_with(name)) << problem_;
    EXPECT_NE(problem_.find(value), std::string::npos) << problem_;
    EXPECT_EQ(problem_.find('\n'), std::string::npos);
    unsetenv(name.c_str());
  }
}

TEST_F(ConfigurationTest, CostsOfAFileTakeTheTablesPlace) {
  const std::string path = std::string(std::getenv("TEST_TMPDIR")) + "/costs";
  std::ofstream(path) << "# measured\nmap 3.25\n";
  Set("FRUGAL_SIM_COSTS", path);
  ASSERT_TRUE(Read()) << problem_;
  EXPECT_EQ(configuration_.costs.map, 3'250);
  EXPECT_EQ(configuration_.costs.unmap, DriverCosts().unmap);
  std::ofstream(path) << "map fast\n";
  EXPECT_FALSE(Read());
  EXPECT_TRUE(problem_.starts_with("FRUGAL_SIM_COSTS='")) << problem_;
  EXPECT_NE(problem_.find("line 1, 'map fast'"), std::string::npos) << problem_;
}

TEST_F(ConfigurationTest, LimitsAreThoseOfHardwareUnlessSet) {
  ASSERT_TRUE(Read());
  EXPECT_EQ(configuration_.mapped_handles, 524'288);
  EXPECT_EQ(configuration_.addresses, GiB(128 << 10));
  EXPECT_FALSE(configuration_.driver_memory.on);
  EXPECT_FALSE(configuration_.driver_time);
  EXPECT_EQ(configuration_.node, "");
  Set("FRUGAL_SIM_MAPPINGS", "1000");
  Set("FRUGAL_SIM_MAP_COUNT", "2000");
  Set("FRUGAL_SIM_ADDRESSES", "1GiB");
  Set("FRUGAL_SIM_MODULE", "8MiB");
  Set("FRUGAL_SIM_FULL", "1");
  ASSERT_TRUE(Read()) << problem_;
  EXPECT_EQ(configuration_.mapped_handles, 1000);
  EXPECT_EQ(configuration_.host_mappings, 2000);
  EXPECT_EQ(configuration_.addresses, GiB(1));
  EXPECT_EQ(configuration_.driver_memory.module, MiB(8));
  EXPECT_TRUE(configuration_.driver_memory.on);
}

TEST_F(ConfigurationTest, AnyTextIsReadWithinBoundsOrRefusedInOneLine) {
  const int64_t count = 5'000 * FromEnvironment("FRUGAL_FUZZ_ROUNDS", 1);
  const std::vector<std::string> names = {
      "FRUGAL_SIM_MEMORY",    "FRUGAL_SIM_CONTEXT", "FRUGAL_SIM_GPUS",   "FRUGAL_SIM_VMM",      "FRUGAL_SIM_VERBOSE",
      "FRUGAL_SIM_KERNEL_NS", "FRUGAL_SIM_BACKING", "FRUGAL_SIM_FAULTS", "FRUGAL_SIM_MAPPINGS", "FRUGAL_SIM_COSTS",
      "FRUGAL_SIM_GPU",       "FRUGAL_SIM_KEEP",    "FRUGAL_SIM_TIME"};
  const std::vector<std::string> pieces = {
      "16",  "GiB", "MiB",     "KiB",     "-1",  "1e9",     "9223372036854775807",
      "1",   "0",   "create@", "map@1+=", "=",   "@",       "out_of_memory",
      ",",   "+",   "memory",  "none",    "\n",  "\x1b[2J", "\xff",
      "%s%", " ",   "0x7f",    "unknown", "inf", "+5",      "99999999999999999999"};
  std::mt19937_64 random(TestSeed());
  int64_t refused = 0;
  for (int64_t i = 0; i < count; ++i) {
    std::string text;
    for (uint64_t parts = 1 + random() % 5; parts > 0; --parts) text += pieces[random() % pieces.size()];
    if (random() % 50 == 0) text.append(100'000, '9');
    const std::string& name = names[random() % names.size()];
    SCOPED_TRACE(name + "=" + text.substr(0, 200));
    setenv(name.c_str(), text.c_str(), 1);
    if (Read()) {
      ASSERT_GE(configuration_.memory, Bytes(0));
      ASSERT_LE(configuration_.memory, GiB(1 << 20));
      ASSERT_GE(configuration_.gpus, 1);
      ASSERT_LE(configuration_.gpus, 16);
    } else {
      ++refused;
      ASSERT_TRUE(problem_.starts_with(name + "='")) << problem_;
      ASSERT_LT(problem_.size(), 300u);
      for (const char one : problem_) ASSERT_TRUE(one >= ' ' && one <= '~') << problem_;
    }
    unsetenv(name.c_str());
  }
  std::printf("%ld values, %ld refused\n", count, refused);
  EXPECT_GT(refused, count / 2);
  EXPECT_LT(refused, count);
}

TEST_F(ConfigurationTest, AHostHasOneGpu) {
  Set("FRUGAL_SIM_UNIFIED", "1");
  Set("FRUGAL_SIM_HOST_OTHERS", "4GiB");
  Set("FRUGAL_SIM_GROUP_LIMIT", "8GiB");
  ASSERT_TRUE(Read());
  EXPECT_TRUE(configuration_.host.on);
  EXPECT_EQ(configuration_.host.others, GiB(4));
  EXPECT_EQ(configuration_.host.group_limit, GiB(8));
  Set("FRUGAL_SIM_GPUS", "2");
  EXPECT_FALSE(Read());
  EXPECT_NE(problem_.find("FRUGAL_SIM_GPUS to 1"), std::string::npos) << problem_;
}

TEST(VisibleSlotsTest, AreReadAsCudaDoes) {
  using Slots = std::vector<int>;
  EXPECT_EQ(Machine::VisibleSlots(nullptr, 3), (Slots{0, 1, 2}));
  EXPECT_EQ(Machine::VisibleSlots("", 3), Slots{});
  EXPECT_EQ(Machine::VisibleSlots("2,0", 3), (Slots{2, 0}));
  EXPECT_EQ(Machine::VisibleSlots("1,7,0", 3), Slots{1});
  EXPECT_EQ(Machine::VisibleSlots("-1", 3), Slots{});
  EXPECT_EQ(Machine::VisibleSlots(Gpu::UuidText(1).c_str(), 3), Slots{1});
}

TEST(VisibleSlotsTest, GpuKeepsItsIdentityHoweverManyAreSeen) {
  Configuration configuration{.gpus = 3};
  Machine machine(configuration, {2, 0});
  ASSERT_EQ(machine.gpu_count(), 2);
  EXPECT_EQ(machine.gpu(0).uuid(), Gpu::UuidOf(2));
  EXPECT_EQ(machine.gpu(1).uuid(), Gpu::UuidOf(0));
}

}  // namespace
}  // namespace frugal::sim
