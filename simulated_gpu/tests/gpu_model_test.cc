#include "simulated_gpu/machine/gpu_model.h"

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace frugal::sim {
namespace {

GpuModel Read(std::string_view text) {
  GpuModel model;
  std::string problem;
  EXPECT_TRUE(GpuModel::Parse(text, &model, &problem)) << text << ": " << problem;
  return model;
}

TEST(GpuModelTest, WhatIsSaidIsTaken) {
  const GpuModel model = Read(
      "name=NVIDIA GeForce RTX 4090,capability=8.9,multiprocessors=128,l2=72MiB,shared_optin=90,shared_sm=91,"
      "threads_sm=1500,bus_width=384,memory_clock=10501");
  EXPECT_TRUE(model.is_given);
  EXPECT_EQ(model.name, "NVIDIA GeForce RTX 4090");
  EXPECT_EQ(model.capability, 89);
  EXPECT_EQ(model.multiprocessors, 128);
  EXPECT_EQ(model.l2, MiB(72));
  EXPECT_EQ(model.shared_of_block, KiB(90));
  EXPECT_EQ(model.shared_of_multiprocessor, KiB(91));
  EXPECT_EQ(model.threads, 1500);
  EXPECT_EQ(model.blocks, 24);
  EXPECT_EQ(model.bus_bits, 384);
  EXPECT_EQ(model.memory_kilohertz, 10'501'000);
}

TEST(GpuModelTest, WhatIsLeftOutFollowsFromTheCapability) {
  struct Expected {
    std::string capability;
    int shared_of_block, threads, blocks;
  };
  for (const Expected& expected : std::vector<Expected>{{"7.0", 96, 2048, 32},
                                                        {"7.5", 64, 1024, 16},
                                                        {"8.0", 163, 2048, 32},
                                                        {"8.6", 99, 1536, 16},
                                                        {"8.9", 99, 1536, 24},
                                                        {"9.0", 227, 2048, 32},
                                                        {"10.0", 227, 2048, 32},
                                                        {"10.3", 227, 2048, 32},
                                                        {"12.0", 99, 1536, 24},
                                                        {"12.1", 99, 1536, 24}}) {
    SCOPED_TRACE(expected.capability);
    const GpuModel model = Read("capability=" + expected.capability);
    EXPECT_EQ(model.shared_of_block, KiB(expected.shared_of_block));
    EXPECT_EQ(model.threads, expected.threads);
    EXPECT_EQ(model.blocks, expected.blocks);
    EXPECT_EQ(model.multiprocessors, GpuModel().multiprocessors);
  }
}

TEST(GpuModelTest, WhereTheCapabilityStandsDoesNotMatter) {
  const GpuModel model = Read("threads_sm=1500,capability=8.6");
  EXPECT_EQ(model.threads, 1500);
  EXPECT_EQ(model.blocks, 16);
}

TEST(GpuModelTest, WhatIsNotUnderstoodIsNamed) {
  const std::vector<std::pair<std::string, std::string>> wrong = {{"H100", "key=value"},
                                                                  {"colour=green", "a key is name"},
                                                                  {"capability=9", "capability"},
                                                                  {"capability=6.1", "capability"},
                                                                  {"capability=8.99", "capability"},
                                                                  {"multiprocessors=0", "multiprocessors"},
                                                                  {"l2=99GiB", "l2"},
                                                                  {"shared_optin=many", "shared_"},
                                                                  {"shared_sm=-1", "shared_sm"},
                                                                  {"threads_sm=", "threads_sm"},
                                                                  {"bus_width=1e3", "bus_width"},
                                                                  {"memory_clock=fast", "memory_clock"},
                                                                  {"name=", "name"},
                                                                  {"name=a\nb", "name"},
                                                                  {"name=L4,", ""}};
  for (const auto& [text, named] : wrong) {
    SCOPED_TRACE(text);
    GpuModel model;
    std::string problem;
    EXPECT_EQ(GpuModel::Parse(text, &model, &problem), named.empty());
    EXPECT_NE(problem.find(named), std::string::npos) << problem;
    EXPECT_EQ(problem.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace frugal::sim
