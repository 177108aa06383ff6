#include "simulated_gpu/libraries/nccl_buffers.h"

#include <algorithm>
#include <cstdlib>

#include "simulated_gpu/libraries/nccl_gpu.h"

namespace frugal::sim::nccl {
namespace {

// What NCCL itself allows.
constexpr int kMostChannels = 64;

// A variable that is a number above 0; `otherwise` if it is not.
int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return otherwise;
  const int64_t value = std::strtoll(text, nullptr, 0);
  return value > 0 ? value : otherwise;
}

int FromEnvironment(const char* name, const char* older_name, int otherwise) {
  return static_cast<int>(FromEnvironment(name, FromEnvironment(older_name, otherwise)));
}

}  // namespace

BufferSettings BufferSettings::For(int major, int minor, const Config* config) {
  constexpr int kWithNvlink = 24;
  constexpr int kOfPeerWithNvlink = 32;
  constexpr int kWithout = 2;
  const bool nvlink = minor == 0 && major >= 7 && major <= 10;
  const auto of_config = [&](int Config::*field, int otherwise) {
    const bool has = config != nullptr && config->size >= sizeof(Config) && config->*field != Config::kUndefined;
    return has ? config->*field : otherwise;
  };
  const int least = FromEnvironment("NCCL_MIN_CTAS", "NCCL_MIN_NCHANNELS", of_config(&Config::min_ctas, 1));
  const int most = FromEnvironment("NCCL_MAX_CTAS", "NCCL_MAX_NCHANNELS", of_config(&Config::max_ctas, kMostChannels));
  const auto limited = [&](int channels) {
    return std::clamp(std::min(std::max(channels, least), most), 1, kMostChannels);
  };

  BufferSettings settings;
  settings.simple = FromEnvironment("NCCL_BUFFSIZE", settings.simple);
  settings.low_latency = FromEnvironment("NCCL_LL_BUFFSIZE", settings.low_latency);
  settings.low_latency_128 = FromEnvironment("NCCL_LL128_BUFFSIZE", settings.low_latency_128);
  settings.channels = limited(nvlink ? kWithNvlink : kWithout);
  const int of_peer = std::min(nvlink ? kOfPeerWithNvlink : kWithout, most);
  settings.channels_of_peer =
      std::max(1, std::min(of_peer, static_cast<int>(FromEnvironment("NCCL_MAX_P2P_NCHANNELS", kMostChannels))));
  return settings;
}

Buffers::~Buffers() {
  if (taken_ > 0) (void)TakeForDriver(gpu_, -taken_);
}

bool Buffers::Connect(Connection connection, int peer) {
  const std::lock_guard lock(mutex_);
  if (connected_.contains({connection, peer})) return true;
  // Each ring has one GPU before this one and one behind it.
  const int64_t size = connection == Connection::kSendTo ? settings_.channels_of_peer * settings_.sending()
                       : connection == Connection::kReceiveFrom
                           ? settings_.channels_of_peer * settings_.receiving()
                           : settings_.channels * (settings_.receiving() + settings_.sending());
  if (!TakeForDriver(gpu_, size)) return false;
  connected_.emplace(connection, peer);
  taken_ += size;
  return true;
}

int64_t Buffers::taken() const {
  const std::lock_guard lock(mutex_);
  return taken_;
}

}  // namespace frugal::sim::nccl
