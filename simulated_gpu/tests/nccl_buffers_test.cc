#include "simulated_gpu/libraries/nccl_buffers.h"

#include <cstdlib>

#include "gtest/gtest.h"

namespace frugal::sim::nccl {
namespace {

constexpr int64_t kMebibyte = int64_t{1} << 20;

// A variable of the environment while a test runs.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, /*overwrite=*/1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* const name_;
};

TEST(NcclBuffersTest, GpusWithNvlinkHaveMoreChannels) {
  EXPECT_EQ(BufferSettings::For(9, 0, nullptr).channels, 24);
  EXPECT_EQ(BufferSettings::For(8, 0, nullptr).channels_of_peer, 32);
  EXPECT_EQ(BufferSettings::For(8, 9, nullptr).channels, 2);
  EXPECT_EQ(BufferSettings::For(12, 0, nullptr).channels_of_peer, 2);
}

TEST(NcclBuffersTest, ProgramAndEnvironmentLimitChannels) {
  Config config = {sizeof(Config), 0, 0, 1, Config::kUndefined, Config::kUndefined, 8, nullptr, Config::kUndefined};
  EXPECT_EQ(BufferSettings::For(9, 0, &config).channels, 8);
  EXPECT_EQ(BufferSettings::For(9, 0, &config).channels_of_peer, 8);
  config.min_ctas = 4;
  config.max_ctas = Config::kUndefined;
  EXPECT_EQ(BufferSettings::For(8, 6, &config).channels, 4);
  const Variable most("NCCL_MAX_NCHANNELS", "1");
  EXPECT_EQ(BufferSettings::For(9, 0, nullptr).channels, 1);
}

TEST(NcclBuffersTest, EachConnectionIsMadeOnce) {
  using Connection = Buffers::Connection;
  Buffers buffers(0, BufferSettings::For(9, 0, nullptr));
  EXPECT_EQ(buffers.taken(), 0);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(buffers.Connect(Connection::kRings));
  EXPECT_EQ(buffers.taken(), 24 * 12 * kMebibyte);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(buffers.Connect(Connection::kSendTo, 1));
  EXPECT_EQ(buffers.taken(), (24 * 12 + 32 * 2) * kMebibyte);
  EXPECT_TRUE(buffers.Connect(Connection::kReceiveFrom, 1));
  EXPECT_TRUE(buffers.Connect(Connection::kReceiveFrom, 2));
  EXPECT_EQ(buffers.taken(), (24 * 12 + 32 * 2 + 2 * 32 * 10) * kMebibyte);
}

}  // namespace
}  // namespace frugal::sim::nccl
