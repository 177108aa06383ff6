// What a C++ program answers `frugal-alloc top`.

#include <c10/cuda/CUDACachingAllocator.h>
#include <frugal_alloc/torch.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"

// Of bindings/c_api/c_api.h, which cannot be included beside the header for programs.
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

// "": nobody listens.
std::string Ask() {
  struct stat facts;
  if (stat("/proc/self/ns/pid", &facts) != 0) return "";
  const std::string name = "frugal_alloc/" + std::to_string(facts.st_ino) + "/" + std::to_string(getpid());
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::string text;
  if (connect(connection, reinterpret_cast<const sockaddr*>(&address), size) == 0) {
    std::array<char, 4096> buffer;
    for (ssize_t got = 0; (got = read(connection, buffer.data(), buffer.size())) > 0;) {
      text.append(buffer.data(), static_cast<size_t>(got));
    }
  }
  close(connection);
  return text;
}

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class LiveTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const frugal_alloc::Status installed = frugal_alloc::install();
    ASSERT_TRUE(installed) << installed.message();
    caching::init(1);
  }
};

// The first test: no GPU is open yet.
TEST_F(LiveTest, AProgramIsSilentUntilItUsesAGpuAndThenTellsItsFigures) {
  EXPECT_EQ(Ask(), "");
  const c10::DataPtr block = caching::get()->allocate(30 * kMiB);
  const std::string answer = Ask();
  EXPECT_TRUE(Has(answer, "\"in_use_bytes\":" + std::to_string(30 * kMiB))) << answer;
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
  EXPECT_TRUE(Has(leaking, "\"kind\":\"leak\",\"gpu\":0,\"bytes_per_epoch\":4194304.000,\"text\":\"")) << leaking;
  EXPECT_TRUE(Has(leaking, " leaks 4.00 MiB with each epoch\"")) << leaking;
  const frugal_published_verdict told = {"suspect", 0, "a.py:1 may leak", 5.0};
  frugal_publish_verdicts(&told, 1);
  EXPECT_TRUE(Has(Ask(),
                  "\"verdicts\":[{\"kind\":\"suspect\",\"gpu\":0,\"bytes_per_epoch\":5.000,\"text\":\"a.py:1 may "
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

TEST_F(LiveTest, ALookIsNoticedOnce) {
  frugal_take_look();
  EXPECT_EQ(frugal_take_look(), 0);
  Ask();
  EXPECT_EQ(frugal_take_look(), 1);
  EXPECT_EQ(frugal_take_look(), 0);
}

TEST_F(LiveTest, TheOptionTurnsItOffAndOn) {
  ASSERT_TRUE(frugal_alloc::install({.publish = "off"}));
  EXPECT_EQ(Ask(), "");
  ASSERT_TRUE(frugal_alloc::install({.publish = "on"}));
  EXPECT_NE(Ask(), "");
}

}  // namespace
