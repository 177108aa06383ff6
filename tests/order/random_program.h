// Random programs whose every access is checked.

#ifndef FRUGAL_TESTS_ORDER_RANDOM_PROGRAM_H_
#define FRUGAL_TESTS_ORDER_RANDOM_PROGRAM_H_

#include <cstdint>
#include <optional>
#include <random>

#include "tests/order/ordered_program.h"

namespace frugal {

// Several streams that are busy most of the time share a device that is too small for all that they want: memory moves
// on every way that there is. The same for the same seed.
class RandomProgram {
 public:
  explicit RandomProgram(uint64_t seed);

  void Play(int64_t steps);
  // Plays up to `steps` steps, no more than a few after the device has lied, then uses all memory in as many ways as it
  // takes for what is wrong to be seen.
  void PlayUntilLie(int64_t steps);
  OrderedProgram& program() { return program_; }

 private:
  int64_t Draw(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  Stream DrawStream() { return Stream{static_cast<uint64_t>(Draw(0, streams_ - 1))}; }
  OrderedProgram::Options DrawOptions(uint64_t seed);
  Bytes DrawSize();
  Address DrawBlock();
  void Step();
  void BeginCapture(Stream stream);
  void EndCapture();
  void GiveBackMemory();

  std::mt19937_64 random_;
  const int64_t streams_;
  std::optional<Stream> captured_;
  OrderedProgram program_;
};

}  // namespace frugal

#endif  // FRUGAL_TESTS_ORDER_RANDOM_PROGRAM_H_
