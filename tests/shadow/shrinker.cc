#include "tests/shadow/shrinker.h"

#include <algorithm>
#include <cstddef>
#include <unordered_map>
#include <utility>
#include <vector>

#include "allocator/port/units.h"

namespace frugal::shadow {
namespace {

class Shrinker {
 public:
  Shrinker(Program program, absl::FunctionRef<bool(const Program&)> fails, int most_runs)
      : program_(std::move(program)), fails_(fails), runs_left_(most_runs) {}

  Program Shrink() {
    for (bool helped = true; helped && runs_left_ > 0;) {
      helped = TakeOutChunks();
      helped |= SimplifyDevice();
      for (size_t i = 0; i < program_.operations.size(); ++i) helped |= SimplifyOperation(i);
    }
    NumberBlocks();
    return program_;
  }

 private:
  bool Try(Program candidate) {
    if (runs_left_ <= 0) return false;
    --runs_left_;
    if (!fails_(candidate)) return false;
    program_ = std::move(candidate);
    return true;
  }

  bool TakeOutChunks() {
    bool helped = false;
    for (size_t chunk = std::max<size_t>(program_.operations.size() / 2, 1); chunk > 0; chunk /= 2) {
      // From the end, since what comes later depends on what comes before.
      for (size_t past = program_.operations.size(); past > 0 && runs_left_ > 0;) {
        const size_t first = past - std::min(chunk, past);
        Program without = program_;
        without.operations.erase(without.operations.begin() + static_cast<std::ptrdiff_t>(first),
                                 without.operations.begin() + static_cast<std::ptrdiff_t>(past));
        helped |= Try(std::move(without));
        past = first;
      }
    }
    return helped;
  }

  bool SimplifyDevice() {
    bool helped = false;
    for (int64_t pages : {program_.pages / 2, program_.pages - 1}) {
      if (pages < 1) continue;
      Program smaller = program_;
      smaller.pages = pages;
      helped |= Try(std::move(smaller));
    }
    return helped;
  }

  bool SimplifyOperation(size_t i) {
    // The value of an option says nothing by being small, and must be one that it can have.
    if (program_.operations[i].kind == OperationKind::kSetOption) return false;
    bool helped = SimplifyNumber(i, &Operation::amount);
    helped |= SimplifyNumber(i, &Operation::second);
    // Whatever helps makes program_ another one.
    if (program_.operations[i].stream > 1) helped |= TryWith(i, [](Operation& changed) { changed.stream = 1; });
    if (program_.operations[i].kind == OperationKind::kUse) {
      helped |= TryWith(i, [](Operation& changed) { changed.kind = OperationKind::kRecordStream; });
    }
    return helped;
  }

  bool SimplifyNumber(size_t i, int64_t Operation::*number) {
    const int64_t now = program_.operations[i].*number;
    const int64_t page = kPageSize.count();
    for (int64_t simpler : {int64_t{0}, int64_t{1}, page, now / page * page, (now + page - 1) / page * page, now / 2,
                            now - page, now / kGrain.count() * kGrain.count(), now - kGrain.count(), now - 1}) {
      if (simpler < 0) continue;
      if (simpler >= now) continue;
      if (TryWith(i, [number, simpler](Operation& changed) { changed.*number = simpler; })) return true;
    }
    return false;
  }

  template <typename Change>
  bool TryWith(size_t i, Change change) {
    Program changed = program_;
    change(changed.operations[i]);
    return Try(std::move(changed));
  }

  void NumberBlocks() {
    std::unordered_map<uint32_t, uint32_t> numbers = {{0, 0}};
    Program numbered = program_;
    for (Operation& operation : numbered.operations) {
      operation.block = numbers.emplace(operation.block, static_cast<uint32_t>(numbers.size())).first->second;
    }
    ++runs_left_;
    static_cast<void>(Try(std::move(numbered)));
  }

  Program program_;
  absl::FunctionRef<bool(const Program&)> fails_;
  int runs_left_;
};

}  // namespace

Program Shrink(Program program, absl::FunctionRef<bool(const Program&)> fails, int most_runs) {
  return Shrinker(std::move(program), fails, most_runs).Shrink();
}

}  // namespace frugal::shadow
