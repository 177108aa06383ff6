#include "bindings/adapter/sleeper.h"

#include <deque>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"

namespace frugal {

namespace {

// Why a call failed, and why what it had done could not be undone, if so.
absl::Status Both(const absl::Status& failure, const absl::Status& undone) {
  if (undone.ok()) return failure;
  return {failure.code(),
          absl::StrCat(failure.message(), "; and a part sleeps or wakes all the same, since ", undone.message())};
}

}  // namespace

template <typename Call>
absl::Status Sleeper::ToStatus(Call&& call) {
  try {
    return call();
  } catch (const c10::Error& error) {
    return absl::InternalError(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return absl::InternalError(error.what());
  }
}

absl::StatusOr<std::vector<SleptGpu>> Sleeper::FallAsleep(const SleepRequest& request) {
  const History::Operation operation(history_, native_, RecordContext::ALL);
  absl::Status status;
  std::vector<SleptGpu> results;
  std::vector<std::string> warnings;
  {
    const absl::MutexLock one_at_a_time(&mutex_);
    std::deque<FallingAsleep> begun;
    gpus_.ForEach([&](GpuMemory& gpu) {
      if (!status.ok()) return;
      FallingAsleep& falling = begun.emplace_back(gpu, routing_, request);
      status = ToStatus([&] { return falling.Begin(); });
      if (!status.ok()) begun.pop_back();
    });
    for (FallingAsleep& falling : begun) {
      if (status.ok()) status = ToStatus([&] { return falling.Copy(); });
    }
    const bool commits = status.ok();
    for (FallingAsleep& falling : begun) {
      if (commits) {
        status.Update(ToStatus([&] { return falling.Commit(); }));
        results.push_back(falling.Result());
        warnings.insert(warnings.end(), falling.warnings().begin(), falling.warnings().end());
      } else {
        status = Both(status, ToStatus([&] { return falling.Undo(); }));
      }
    }
    may_sleep_.store(true);
    poison_ |= commits && request.poison;
  }
  history_.WarnOfFailures();
  for (const std::string& warning : warnings) TORCH_WARN(warning);
  if (!status.ok()) return status;
  return results;
}

absl::StatusOr<std::vector<WokenGpu>> Sleeper::Wake(const TagChoice& tags) {
  const History::Operation operation(history_, native_, RecordContext::ALL);
  absl::Status status;
  std::vector<WokenGpu> results;
  std::vector<c10::intrusive_ptr<c10::StorageImpl>> awake;
  {
    const absl::MutexLock one_at_a_time(&mutex_);
    const bool poison = poison_;
    std::deque<Waking> begun;
    gpus_.ForEach([&](GpuMemory& gpu) {
      if (!status.ok()) return;
      Waking& waking = begun.emplace_back(gpu, tags);
      status = ToStatus([&] { return waking.Begin(); });
    });
    for (Waking& waking : begun) {
      if (status.ok()) status = ToStatus([&] { return waking.Copy(poison); });
    }
    for (Waking& waking : begun) {
      if (status.ok()) {
        status = ToStatus([&] { return waking.Finish(); });
        results.push_back(waking.Result());
      } else {
        status = Both(status, ToStatus([&] { return waking.Undo(); }));
      }
    }
    awake = storages_.ClearIf([this](const void* data) { return !AsleepAt(data).has_value(); });
    bool sleeps = false;
    gpus_.ForEach([&](GpuMemory& gpu) { sleeps |= !gpu.allocator().sleep().Asleep().empty(); });
    may_sleep_.store(sleeps);
    poison_ &= sleeps;
  }
  history_.WarnOfFailures();
  if (!status.ok()) return status;
  return results;
}

std::vector<Sleep::AsleepBlock> Sleeper::AsleepOn(GpuMemory& gpu) const {
  if (!may_sleep_.load()) return {};
  return gpu.allocator().sleep().Asleep();
}

Bytes Sleeper::AsleepBytes(GpuMemory& gpu) const { return may_sleep_.load() ? gpu.Asleep() : Bytes(0); }

std::optional<BlockView> Sleeper::AsleepAt(const void* block) const {
  GpuMemory* const gpu = gpus_.OwnerOf(block);
  if (gpu == nullptr) return std::nullopt;
  std::optional<BlockView> found = gpu->allocator().inspect().FindBlock(Address(block));
  return found.has_value() && found->asleep ? found : std::nullopt;
}

bool Sleeper::Mark(c10::StorageImpl& storage, std::string message) {
  if (!AsleepAt(storage._mutable_data_ptr_no_checks().get()).has_value()) return false;
  const absl::MutexLock lock(&mutex_);
  storages_.Mark(storage, std::move(message));
  return true;
}

absl::StatusOr<bool> Sleeper::Read(const void* data, Bytes size, char* to) {
  GpuMemory* const gpu = gpus_.OwnerOf(data);
  if (gpu == nullptr) return false;
  const absl::MutexLock one_at_a_time(&mutex_);
  const AddressRange range{Address(data), size};
  for (const Sleep::AsleepBlock& sleeper : AsleepOn(*gpu)) {
    const Address end = sleeper.block.address + sleeper.block.size;
    if (range.address < sleeper.block.address || range.address >= end) continue;
    const absl::Status status = ReadAsleep(*gpu, sleeper, range, to);
    if (!status.ok()) return status;
    return true;
  }
  return false;
}

void Sleeper::Trim() {
  // Whoever sleeps or wakes has need of it, for seconds perhaps.
  if (!mutex_.TryLock()) return;
  absl::Status status;
  gpus_.ForEach([&](GpuMemory& gpu) { status.Update(gpu.host_copies().Trim()); });
  mutex_.Unlock();
  if (status.ok()) return;
  TORCH_WARN("frugal_alloc still holds host memory: ", status.message());
}

}  // namespace frugal
