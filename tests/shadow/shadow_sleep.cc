// A shadow run's blocks that sleep. Compared are, beside what holds for all operations:
// - all work is over before a block falls asleep, and none does while a stream is captured;
// - what goes are the handles that only chosen and sleeping blocks have bytes of, all of them, and nothing else ever
//   goes from below a block;
// - what is given back while it is copied serves nobody before that is over;
// - a wake brings back all that the chosen ones lack, in memory that nothing else uses, or changes nothing;
// - what sleeps, with which tag, and what it lacks.

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_format.h"
#include "tests/shadow/shadow_run.h"

namespace frugal::shadow {
namespace {

using Part = MemoryModel::Part;
using Parts = MemoryModel::Parts;

bool IsMeant(int64_t wanted, uint8_t tag) { return wanted == 0 || wanted == tag; }

uint64_t PageOf(Address address) { return address.value() / static_cast<uint64_t>(kPageSize.count()); }

Bytes SizeOf(const Parts& parts) {
  Bytes size;
  for (const Part& part : parts) size += part.size;
  return size;
}

Parts Without(const Parts& parts, const Parts& others) {
  Parts left;
  std::set_difference(parts.begin(), parts.end(), others.begin(), others.end(), std::back_inserter(left));
  return left;
}

// Neighbours of one block are one.
Parts Joined(const Parts& parts) {
  Parts joined;
  for (const Part& part : parts) {
    const bool continues =
        !joined.empty() && joined.back().block == part.block && joined.back().start + joined.back().size == part.start;
    if (continues) {
      joined.back().size += part.size;
    } else {
      joined.push_back(part);
    }
  }
  return joined;
}

}  // namespace

void ShadowRun::DoSleep(const Operation& operation) {
  switch (operation.kind) {
    case OperationKind::kTag: {
      LiveBlock* const block = blocks_.Find(operation.block);
      if (block == nullptr) return;
      block->tag = static_cast<uint8_t>(operation.amount);
      const absl::Status status = allocator_->sleep().SetTag(block->address, block->tag);
      return status.ok() ? CheckAsleep() : verdict_.Fail("SetTag: " + status.ToString());
    }
    case OperationKind::kFallAsleep:
      return FallAsleep(operation.amount);
    case OperationKind::kLetGo:
      return LetGo();
    case OperationKind::kTakeBack:
      return TakeBackMemory(operation.amount);
    case OperationKind::kWakeUp:
      return WakeUp(operation.amount);
    default:
      return verdict_.Fail("an operation that nobody runs: " + ToText(operation));
  }
}

void ShadowRun::FallAsleep(int64_t tag) {
  if (sleeps_ != Sleeps::kNot) return;
  const int64_t faults_before = faults();
  absl::flat_hash_set<uint32_t> goes;
  // Whoever may use a block does so until the last moment.
  Positions uses;
  for (uint32_t name : blocks_.names()) {
    const LiveBlock& block = *blocks_.Find(name);
    if (block.is_asleep || IsMeant(tag, block.tag)) goes.insert(name);
    if (block.is_asleep) continue;
    order_.Launch(block.stream, uses);
    for (uint8_t i = 0; i < kStreams; ++i) {
      if (block.used_by[i]) order_.Launch(Stream{uint64_t{i} + 1}, uses);
    }
  }
  const absl::StatusOr<std::vector<Sleep::Range>> ranges =
      allocator_->sleep().FallAsleep([=](Address, uint8_t its) { return IsMeant(tag, its); });
  if (!ranges.ok()) {
    if (!AnyCaptured() && faults() == faults_before) verdict_.Fail("FallAsleep returned " + ranges.status().ToString());
    return CheckAsleep();
  }
  sleeps_ = Sleeps::kFalling;
  if (level_ == CheckLevel::kOff) return;
  if (AnyCaptured()) verdict_.Fail("blocks fell asleep while a stream was captured");
  if (!order_.IsOver(uses)) verdict_.Fail("blocks fell asleep before all work on them was over");
  to_go_ = movable_ ? memory_.Under(goes) : Parts();
  CheckParts("falls asleep", *ranges, to_go_);
  for (const Part& part : to_go_) blocks_.Find(part.block)->is_asleep = true;
  CheckAsleep();
}

void ShadowRun::LetGo() {
  if (sleeps_ == Sleeps::kNot) return;
  const int64_t faults_before = faults();
  const Bytes before = memory_.held();
  memory_.BeginLetGo(to_go_);
  const absl::StatusOr<Bytes> gone = allocator_->sleep().LetGo();
  const Parts lost = memory_.EndLetGo();
  tally_.slept += std::ssize(lost);
  for (const Part& part : lost) {
    const auto freed = freed_asleep_.find(part.block);
    Parts& lacking = freed != freed_asleep_.end() ? freed->second.lacking : blocks_.Find(part.block)->lacking;
    lacking.insert(std::upper_bound(lacking.begin(), lacking.end(), part), part);
  }
  to_go_ = Without(to_go_, lost);
  const bool may_fail = faults() > faults_before || AnyCaptured();
  if (!gone.ok() && !may_fail) verdict_.Fail("LetGo returned " + gone.status().ToString());
  if (gone.ok() && !may_fail) verdict_.Expect("what LetGo returned", gone->count(), (before - memory_.held()).count());
  if (!may_fail) verdict_.Expect("bytes that should have gone", SizeOf(to_go_).count(), 0);
  EndCopying();
  CheckAsleep();
}

MemoryModel::Parts ShadowRun::LackingFor(int64_t tag) const {
  absl::flat_hash_set<uint64_t> pages;
  Parts all;
  for (uint32_t name : blocks_.names()) {
    const LiveBlock& block = *blocks_.Find(name);
    all.insert(all.end(), block.lacking.begin(), block.lacking.end());
    if (!IsMeant(tag, block.tag)) continue;
    for (const Part& part : block.lacking) pages.insert(PageOf(part.start));
  }
  std::erase_if(all, [&](const Part& part) { return !pages.contains(PageOf(part.start)); });
  std::sort(all.begin(), all.end());
  return all;
}

void ShadowRun::TakeBackMemory(int64_t tag) {
  if (sleeps_ == Sleeps::kWaking) return;
  EndCopying();
  const Parts lacking = LackingFor(tag);
  absl::flat_hash_set<uint64_t> pages;
  for (const Part& part : lacking) pages.insert(PageOf(part.start));
  const int64_t faults_before = faults();
  const absl::StatusOr<std::vector<Sleep::Range>> ranges =
      allocator_->sleep().TakeBack([=](Address, uint8_t its) { return IsMeant(tag, its); });
  if (!ranges.ok()) {
    if (faults() > faults_before || level_ == CheckLevel::kOff) return;
    const Bytes to_be_had = std::max(Headroom(), Bytes(0)) + memory_.UnusedPages().bytes();
    const bool could_be = !AnyCaptured() && !has_unmarked_ && Pages(std::ssize(pages)).bytes() <= to_be_had;
    if (!absl::IsResourceExhausted(ranges.status()) || could_be) {
      verdict_.Fail(absl::StrFormat("TakeBack of %d pages returned %s, with %d bytes to be had", std::ssize(pages),
                                    ranges.status().ToString(), to_be_had.count()));
    }
    return CheckAsleep();
  }
  sleeps_ = Sleeps::kWaking;
  if (level_ == CheckLevel::kOff) return;
  CheckParts("comes back", *ranges, lacking);
  if (failed()) return;
  for (const Part& part : Joined(lacking)) {
    LiveBlock& block = *blocks_.Find(part.block);
    memory_.HandOut(part.block, part.start, part.size, block.stream);
  }
  for (const Part& part : lacking) {
    Parts& its = blocks_.Find(part.block)->lacking;
    its.erase(std::find(its.begin(), its.end(), part));
  }
  to_go_ = lacking;
  tally_.woken += std::ssize(lacking);
  CheckAsleep();
}

void ShadowRun::WakeUp(int64_t tag) {
  const absl::Status status = allocator_->sleep().WakeUp([=](Address, uint8_t its) { return IsMeant(tag, its); });
  if (!status.ok()) verdict_.Fail("WakeUp returned " + status.ToString());
  for (uint32_t name : blocks_.names()) {
    LiveBlock& block = *blocks_.Find(name);
    if (IsMeant(tag, block.tag) && block.lacking.empty()) block.is_asleep = false;
  }
  EndCopying();
  CheckAsleep();
}

MemoryModel::Parts ShadowRun::InMemory(const LiveBlock& block) {
  Parts all;
  MemoryModel::AddParts(block.address, block.size, 0, all);
  std::erase_if(all, [&](const Part& part) {
    return std::any_of(block.lacking.begin(), block.lacking.end(),
                       [&](const Part& lacks) { return lacks.start == part.start; });
  });
  return Joined(all);
}

Bytes ShadowRun::Lacking() const { return SizeOf(LackingFor(0)); }

bool ShadowRun::FreeAsleep(uint32_t name, const LiveBlock& block) {
  if (!block.is_asleep) return false;
  freed_asleep_.emplace(name, block);
  if (sleeps_ == Sleeps::kNot) EndCopying();
  return true;
}

void ShadowRun::EndCopying() {
  sleeps_ = Sleeps::kNot;
  to_go_.clear();
  for (const auto& [name, block] : std::exchange(freed_asleep_, {})) {
    for (const Part& part : InMemory(block)) memory_.TakeBack(name, part.start, part.size, {});
  }
}

void ShadowRun::CheckParts(const char* what, absl::Span<const Sleep::Range> said, const Parts& expected) {
  std::map<Address, uint32_t> starts;
  for (uint32_t name : blocks_.names()) starts[blocks_.Find(name)->address] = name;
  Parts parts;
  for (const Sleep::Range& range : said) {
    const auto after = starts.upper_bound(range.address);
    MemoryModel::AddParts(range.address, range.size, after == starts.begin() ? 0 : std::prev(after)->second, parts);
  }
  std::sort(parts.begin(), parts.end());
  if (parts == expected) return;
  verdict_.Fail(absl::StrFormat("%d bytes in %d parts were said of what %s, expected were %d in %d",
                                SizeOf(parts).count(), parts.size(), what, SizeOf(expected).count(), expected.size()));
}

void ShadowRun::CheckAsleep() {
  if (level_ == CheckLevel::kOff || failed()) return;
  size_t asleep = 0;
  for (uint32_t name : blocks_.names()) asleep += blocks_.Find(name)->is_asleep ? 1 : 0;
  const std::vector<Sleep::AsleepBlock> said = allocator_->sleep().Asleep();
  verdict_.Expect("blocks that are asleep", std::ssize(said), static_cast<int64_t>(asleep));
  for (const Sleep::AsleepBlock& sleeper : said) {
    const uint32_t name = NameOf(sleeper.block.annotation);
    const LiveBlock* const block = blocks_.Find(name);
    if (block == nullptr || !block->is_asleep || block->address != sleeper.block.address) {
      return verdict_.Fail("a block is said to be asleep that is not");
    }
    verdict_.Expect("the tag of a block that is asleep", sleeper.block.tag, block->tag);
    Parts lacking;
    for (const Sleep::Range& range : sleeper.lacking) MemoryModel::AddParts(range.address, range.size, name, lacking);
    if (lacking != block->lacking) verdict_.Fail(absl::StrFormat("#%d is said to lack what it does not", name));
  }
}

}  // namespace frugal::shadow
