// What a C++ program answers `frugal-alloc top`.

#include <c10/cuda/CUDACachingAllocator.h>
#include <frugal_alloc/torch.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/bindings/asking.h"

// Of bindings/c_api/c_api.h, whose target would link the library's own code a second time.
extern "C" {
struct frugal_published_verdict {
  const char* kind;
  int gpu;
  const char* text;
  double bytes_per_epoch;
};
void frugal_publish_verdicts(const frugal_published_verdict* verdicts, int count);
int frugal_take_look(void);
void frugal_correct_verdict(int gpu, const char* verdict);
}

namespace {

namespace caching = c10::cuda::CUDACachingAllocator;

constexpr size_t kMiB = size_t{1} << 20;

std::string Ask() {
  struct stat facts;
  EXPECT_EQ(stat("/proc/self/ns/pid", &facts), 0);
  return frugal::Ask("frugal_alloc/" + std::to_string(facts.st_ino) + "/" + std::to_string(getpid()));
}

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class LiveTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const frugal_alloc::Status installed = frugal_alloc::enable();
    ASSERT_TRUE(installed) << installed.message();
    caching::init(1);
  }
};

// The first test: no GPU is open yet.
TEST_F(LiveTest, AProgramIsSilentUntilItUsesAGpuAndThenTellsItsFigures) {
  EXPECT_EQ(Ask(), "nobody");
  const c10::DataPtr block = caching::get()->allocate(30 * kMiB);
  const std::string answer = Ask();
  EXPECT_TRUE(Has(answer, "\"allocated_bytes\":" + std::to_string(30 * kMiB))) << answer;
  EXPECT_TRUE(Has(answer, "\"simulated\":true")) << answer;
  EXPECT_TRUE(Has(answer, "\"verdicts\":[]")) << answer;
  EXPECT_EQ(answer.back(), '\n');
}

TEST_F(LiveTest, WhatLeaksIsTheLibrarysFindingUntilSomebodyKnowsMore) {
  std::vector<c10::DataPtr> kept;
  for (int epoch = 0; epoch < 12; ++epoch) {
    kept.push_back(caching::get()->allocate(4 * kMiB));
    frugal_alloc::epoch_end();
  }
  const std::string leaking = Ask();
  EXPECT_TRUE(Has(leaking, "\"kind\":\"leak\",\"gpu\":0,\"bytes_per_epoch\":4194304,\"text\":\"")) << leaking;
  EXPECT_TRUE(Has(leaking, " leaks 4.00 MiB with each epoch\"")) << leaking;
  const frugal_published_verdict told = {"suspect", 0, "a.py:1 may leak", 5.0};
  frugal_publish_verdicts(&told, 1);
  EXPECT_TRUE(Has(Ask(),
                  "\"verdicts\":[{\"kind\":\"suspect\",\"gpu\":0,\"bytes_per_epoch\":5,\"text\":\"a.py:1 may "
                  "leak\"}]"));
  frugal_publish_verdicts(nullptr, 0);
  EXPECT_TRUE(Has(Ask(), "\"verdicts\":[]"));
}

TEST_F(LiveTest, ErrorsAreCountedWithTheVerdictAndItsCorrection) {
  EXPECT_THROW(caching::get()->allocate(100'000 * kMiB), c10::OutOfMemoryError);
  EXPECT_TRUE(Has(Ask(), "\"out_of_memory_errors\":1,\"last_out_of_memory\":\"too_big\""));
  frugal_correct_verdict(0, "outside");
  EXPECT_TRUE(Has(Ask(), "\"last_out_of_memory\":\"outside\""));
  for (const char* wrong : {"", "too big"}) frugal_correct_verdict(0, wrong);
  frugal_correct_verdict(7, "leak");
  EXPECT_TRUE(Has(Ask(), "\"last_out_of_memory\":\"outside\""));
}

}  // namespace
