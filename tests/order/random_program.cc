#include "tests/order/random_program.h"

#include <iterator>

#include "gtest/gtest.h"

namespace frugal {

RandomProgram::RandomProgram(uint64_t seed) : random_(seed), streams_(Draw(1, 5)), program_(DrawOptions(seed)) {}

// One in four has no virtual memory. Two of the others have handles of several pages, which devices so small have only
// with another policy than the usual one: one grows while it can, the other remaps first.
OrderedProgram::Options RandomProgram::DrawOptions(uint64_t seed) {
  OrderedProgram::Options options{.memory = kPageSize * Draw(8, 40), .virtual_memory = seed % 4 != 3};
  if (seed % 4 == 0 || seed % 4 == 3) return options;
  options.policy.waste_part = seed % 4 == 1 ? 1 : 32;
  options.policy.request_part = 1;
  options.policy.piece_part = Draw(1, 4);
  return options;
}

void RandomProgram::Play(int64_t steps) {
  for (int64_t step = 0; step < steps; ++step) Step();
}

void RandomProgram::PlayUntilLie(int64_t steps) {
  for (int64_t step = 0; step < steps && !program_.lying().has_lied(); ++step) Step();
  for (int64_t step = Draw(0, 10); step > 0; --step) Step();
  // What is free already first: to take more, streams wait for each other.
  TakeWhatIsFree(program_);
  const int64_t first = Draw(0, streams_ - 1);
  for (int64_t i = 0; i < streams_; ++i) TakeAll(program_, Stream{static_cast<uint64_t>((first + i) % streams_)});
  EXPECT_TRUE(program_.allocator().Trim().ok());
}

Bytes RandomProgram::DrawSize() { return Draw(0, 2) == 0 ? Bytes(Draw(1, 1'200'000)) : Bytes(Draw(1, 12'000'000)); }

Address RandomProgram::DrawBlock() {
  return std::next(program_.live().begin(), Draw(0, std::ssize(program_.live()) - 1))->first;
}

void RandomProgram::Step() {
  // Slower than the streams get work, so that they are behind.
  program_.AdvanceTo(program_.now() + Draw(0, 20));
  // Captures are short: streams that are captured wait for nobody, and nobody waits for them.
  if (captured_.has_value() && Draw(0, 9) == 0) EndCapture();
  const int64_t choice = Draw(0, 999);
  if (choice < 100) {
    program_.MakeBusyUntil(DrawStream(), program_.now() + Draw(0, 400));
  } else if (choice < 105) {
    BeginCapture(DrawStream());
  } else if (program_.live().empty() || choice < 550) {
    static_cast<void>(program_.TryAllocate(DrawSize(), DrawStream()));
  } else if (choice < 650) {
    const Address block = DrawBlock();
    const Stream user = DrawStream();
    const Stream owner = program_.allocator().inspect().StreamsOf(block).front();
    if (captured_ == user || captured_ == owner) return;
    program_.UseOn(block, user, program_.now() + Draw(0, 400));
  } else if (choice < 985) {
    program_.Free(DrawBlock());
  } else {
    GiveBackMemory();
  }
}

void RandomProgram::BeginCapture(Stream stream) {
  if (captured_.has_value()) return;
  captured_ = stream;
  program_.BeginCapture(stream);
}

void RandomProgram::EndCapture() {
  program_.EndCapture(*captured_);
  captured_.reset();
}

void RandomProgram::GiveBackMemory() {
  switch (Draw(0, 2)) {
    case 0:
      EXPECT_TRUE(program_.allocator().Trim(kPageSize * Draw(1, 40)).ok());
      break;
    case 1:
      EXPECT_TRUE(program_.allocator().MarkUse().ok());
      break;
    default:
      EXPECT_TRUE(program_.allocator().ReturnIdle(kPageSize * Draw(1, 40)).ok());
  }
}

}  // namespace frugal
