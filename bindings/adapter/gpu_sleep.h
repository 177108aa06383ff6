// One GPU's part of falling asleep and waking: what the policy chooses, and its copies in host memory.

#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "allocator/births/allocation_site.h"
#include "allocator/port/address_range.h"
#include "allocator/port/units.h"
#include "allocator/sleep.h"
#include "bindings/adapter/gpu_memory.h"
#include "bindings/adapter/routing.h"
#include "bindings/adapter/tags.h"
#include "cuda/host_copies.h"

namespace frugal {

// Which tags are meant.
struct TagChoice {
  std::optional<std::vector<Tags::Id>> only;  // nullopt: whatever its tag
  std::vector<Tags::Id> keep;                 // but these

  static bool Has(const std::vector<Tags::Id>& tags, Tags::Id tag) {
    return std::find(tags.begin(), tags.end(), tag) != tags.end();
  }
  bool Means(Tags::Id tag) const { return (!only.has_value() || Has(*only, tag)) && !Has(keep, tag); }
};

struct SleepRequest {
  TagChoice tags;
  // Where memory of tensors lies that the program is known to hold: of what is meant, the blocks there sleep. nullopt:
  // nobody can tell, and those with a tag do.
  std::optional<std::vector<Address>> held;
  std::vector<Tags::Id> drop;  // is not copied
  HostCopies::Kind host = HostCopies::Kind::kPinned;
  bool poison = false;  // what is dropped becomes NaN
  // Why nothing that graphs read can sleep, if it cannot.
  std::string no_pools = {};

  bool Drops(Tags::Id tag) const { return TagChoice::Has(drop, tag); }
};

struct SleptBytes {
  Bytes slept;
  Bytes copied;
  Bytes dropped;
};

// What a sleep did on one GPU.
struct SleptGpu {
  struct Stayed {
    Tags::Id tag;
    SiteId site;
    std::optional<Sleep::Why> why;  // nullopt: the program is not known to hold it
    auto operator<=>(const Stayed&) const = default;
  };

  c10::DeviceIndex gpu = 0;
  std::map<Tags::Id, SleptBytes> by_tag;
  std::map<Stayed, Bytes> stayed;
  Bytes native;  // of PyTorch's own allocator, in use: it stays, if tags do not say which memory is meant
  Bytes given_back;
  Bytes host;  // held in host memory now
};

struct WokenGpu {
  c10::DeviceIndex gpu = 0;
  Bytes woken;
  Bytes copied;
};

// One GPU falls asleep, step by step, so that several do together or not at all: all Begin, all Copy, and nothing is
// lost that could be wanted again until all have. Not thread-safe.
class FallingAsleep {
 public:
  // All must outlive the object.
  FallingAsleep(GpuMemory& gpu, const Routing& routing, const SleepRequest& request)
      : gpu_(gpu), routing_(routing), request_(request) {}

  // Chooses, and takes the host memory for all copies. On an error all is as it was.
  absl::Status Begin();
  // On an error Undo() is to follow.
  absl::Status Copy();
  // After Begin: what it chose is awake again.
  absl::Status Undo();
  // After Copy: contents that are dropped are lost, and memory goes. All sleeps also where the driver fails, with which
  // warnings() are.
  absl::Status Commit();
  // After Commit.
  SleptGpu Result() const;
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  void FindHeld();
  bool IsHeld(Address block, Tags::Id tag) const;
  // As Sleep::Choice.
  bool Means(Address block, Tags::Id tag) const { return request_.tags.Means(tag) && IsHeld(block, tag); }
  // What graphs read is copied whatever its tag.
  bool Drops(const Sleep::AsleepBlock& sleeper) const {
    return sleeper.pool.is_default() && request_.Drops(sleeper.block.tag);
  }
  absl::Status Choose(std::vector<AddressRange>& ranges);
  void Divide(const std::vector<AddressRange>& ranges);
  void FillDropped();
  void Warn(absl::string_view what, const absl::Status& failure);

  GpuMemory& gpu_;
  const Routing& routing_;
  const SleepRequest& request_;
  absl::flat_hash_set<Address> held_;  // blocks, if the request says which
  absl::flat_hash_set<Address> chosen_;
  std::map<Tags::Id, SleptBytes> by_tag_;
  std::vector<AddressRange> again_;  // of what slept before
  std::vector<AddressRange> copied_;
  Bytes given_back_;
  std::vector<std::string> warnings_;
};

// One GPU wakes, in the same way.
class Waking {
 public:
  // Both must outlive the object.
  Waking(GpuMemory& gpu, const TagChoice& tags) : gpu_(gpu), tags_(tags) {}

  // Takes all physical memory. On an error all is as it was.
  absl::Status Begin();
  // `poison`: what has no copy becomes NaN. On an error Undo() is to follow.
  absl::Status Copy(bool poison);
  // After Begin: it sleeps again.
  absl::Status Undo();
  // After Copy.
  absl::Status Finish();
  WokenGpu Result() const;

 private:
  GpuMemory& gpu_;
  const TagChoice& tags_;
  std::vector<AddressRange> ranges_;
  // What has memory below what sleeps: where a wake could not be undone, without its contents.
  std::vector<AddressRange> left_;
  Bytes copied_;
};

// Copies contents of a sleeping block, which the range lies in, to the host. kFailedPrecondition: they were not copied
// when it fell asleep.
absl::Status ReadAsleep(GpuMemory& gpu, const Sleep::AsleepBlock& sleeper, AddressRange range, char* to);

}  // namespace frugal
