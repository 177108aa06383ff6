#include "simulated_gpu/machine/gpu.h"

#include <cstddef>
#include <cstdio>

namespace frugal::sim {

std::array<char, 16> Gpu::UuidOf(int slot) {
  std::array<char, 16> uuid = {'f', 'r', 'u', 'g', 'a', 'l', '-', 's', 'i', 'm', '-', 'g', 'p', 'u', '-', '0'};
  uuid.back() = static_cast<char>('0' + slot);
  return uuid;
}

std::string Gpu::UuidText(int slot) {
  const std::array<char, 16> uuid = UuidOf(slot);
  std::string text = "GPU-";
  for (size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned char>(uuid[i]));
    text += digits;
  }
  return text;
}

}  // namespace frugal::sim
