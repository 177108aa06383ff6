#include "cuda/unified_memory.h"

#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace frugal {
namespace {

using Files = std::map<std::string, std::string>;

// As a machine of 100 GiB has them of which 40 GiB are free, 20 GiB are cached, and 16 GiB are swap.
const Files kMachine = {
    {"/proc/meminfo",
     "MemTotal:       104857600 kB\nMemFree:        41943040 kB\nMemAvailable:   62914560 kB\n"
     "SwapTotal:      16777216 kB\nSwapFree:       16777216 kB\nHugePages_Total:       0\n"},
    {"/proc/self/status", "Name:\tpython\nRssAnon:\t 3145728 kB\nRssFile:\t 1024 kB\n"},
    {"/proc/self/cgroup", "0::/outer/inner\n"},
};

Files With(Files more) {
  more.insert(kMachine.begin(), kMachine.end());
  return more;
}

UnifiedMemory::FileReader Reader(const Files& files) {
  return [files](const std::string& path) -> std::optional<std::string> {
    const auto file = files.find(path);
    if (file == files.end()) return std::nullopt;
    return file->second;
  };
}

UnifiedMemory::State Look(const Files& files) { return *UnifiedMemory(Reader(files)).Look(); }

Files Group(const std::string& folder, Bytes most, Bytes current, Bytes inactive_file) {
  return {{folder + "/memory.max", std::to_string(most.count()) + "\n"},
          {folder + "/memory.current", std::to_string(current.count()) + "\n"},
          {folder + "/memory.stat", "anon 1\ninactive_file " + std::to_string(inactive_file.count()) + "\nfile 3\n"}};
}

TEST(UnifiedMemoryTest, CachedFilesAreThereToBeHadAndSwapIsNot) {
  const UnifiedMemory::State state = Look(kMachine);
  EXPECT_EQ(state.total, GiB(100));
  EXPECT_EQ(state.free, GiB(40));
  EXPECT_EQ(state.available, GiB(60));
  EXPECT_EQ(state.own, GiB(3));
  EXPECT_EQ(state.group_limit, kUnlimited);
}

TEST(UnifiedMemoryTest, ATwentiethOfTheHostIsLeftAloneUnlessSaidOtherwise) {
  UnifiedMemory memory(Reader(kMachine));
  EXPECT_EQ(memory.Look()->Room(), GiB(60 - 5));
  memory.SetReserve(GiB(20));
  EXPECT_EQ(memory.Look()->Room(), GiB(40));
  memory.SetReserve(Bytes(0));
  EXPECT_EQ(memory.Look()->Room(), GiB(60));
  memory.SetReserve(GiB(70));
  EXPECT_EQ(memory.Look()->Room(), Bytes(0));
  memory.SetReserve(std::nullopt);
  EXPECT_EQ(memory.Look()->Room(), GiB(55));
}

TEST(UnifiedMemoryTest, TheGroupWithLeastLeftCounts) {
  Files files = With(Group("/sys/fs/cgroup/outer/inner", GiB(40), GiB(10), GiB(2)));
  EXPECT_EQ(Look(files).group_limit, GiB(40));
  EXPECT_EQ(Look(files).group_left, GiB(32));
  EXPECT_EQ(Look(files).Room(), GiB(32 - 2)) << "a 20th of the group's limit is left alone";

  files.merge(Group("/sys/fs/cgroup/outer", GiB(60), GiB(50), Bytes(0)));
  EXPECT_EQ(Look(files).group_limit, GiB(60));
  EXPECT_EQ(Look(files).group_current, GiB(50));
  EXPECT_EQ(Look(files).Room(), GiB(10 - 3));
}

TEST(UnifiedMemoryTest, AGroupThatIsAtItsLimitLeavesNothing) {
  EXPECT_EQ(Look(With(Group("/sys/fs/cgroup/outer", GiB(8), GiB(9), Bytes(0)))).Room(), Bytes(0));
}

TEST(UnifiedMemoryTest, AGroupThatDoesNotCountTheGpusMemoryDoesNotLimitIt) {
  UnifiedMemory memory(Reader(With(Group("/sys/fs/cgroup/outer/inner", GiB(8), GiB(4), Bytes(0)))));
  EXPECT_EQ(memory.Look()->Room(), Bytes(GiB(4).count() - GiB(8).count() / 20));
  memory.SetGroupCountsGpu(false);
  EXPECT_EQ(memory.Look()->Room(), GiB(55));
}

TEST(UnifiedMemoryTest, GroupsWithoutALimitAreNone) {
  Files files = With({{"/sys/fs/cgroup/outer/memory.max", "max\n"}, {"/sys/fs/cgroup/outer/memory.current", "5\n"}});
  EXPECT_EQ(Look(files).Room(), GiB(55));
  files["/sys/fs/cgroup/outer/memory.max"] = "9223372036854771712\n";
  EXPECT_EQ(Look(files).Room(), GiB(55));
}

TEST(UnifiedMemoryTest, InAContainerTheGroupIsTheRoot) {
  Files files = With(Group("/sys/fs/cgroup", GiB(8), GiB(4), Bytes(0)));
  files["/proc/self/cgroup"] = "0::/\n";
  EXPECT_EQ(Look(files).group_left, GiB(4));
}

TEST(UnifiedMemoryTest, AMachineWithVersion1GroupsHasNone) {
  Files files = kMachine;
  files["/proc/self/cgroup"] = "12:memory:/docker/abc\n1:name=systemd:/\n";
  EXPECT_EQ(Look(files).group_limit, kUnlimited);
  files.erase("/proc/self/cgroup");
  EXPECT_EQ(Look(files).Room(), GiB(55));
}

TEST(UnifiedMemoryTest, AKernelThatDoesNotSayIsAnErrorAndNoFigure) {
  for (const char* text : {"", "MemTotal: 100 kB\n", "MemTotal: 100 kB\nMemAvailable: many kB\n",
                           "MemTotal: 100 kB\nMemAvailable: 9223372036854775807 kB\n", "\n\n:"}) {
    Files files = kMachine;
    files["/proc/meminfo"] = text;
    EXPECT_TRUE(absl::IsUnavailable(UnifiedMemory(Reader(files)).Look().status())) << text;
  }
  EXPECT_TRUE(absl::IsUnavailable(UnifiedMemory(Reader({})).Look().status()));
}

TEST(UnifiedMemoryTest, ThisMachineSays) {
  const absl::StatusOr<UnifiedMemory::State> state = UnifiedMemory().Look();
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_GT(state->total, Bytes(0));
  EXPECT_GT(state->own, Bytes(0));
  EXPECT_LE(state->available, state->total);
}

}  // namespace
}  // namespace frugal
