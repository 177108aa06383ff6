#include "allocator/backing/paired_backing.h"

#include <algorithm>

namespace frugal {

absl::Status PairedBacking::Extend(Arena& arena, Bytes size, WaitPolicy wait_policy) {
  const bool moves = IsMapped(arena.kind());
  Backing& own = moves ? static_cast<Backing&>(movable_) : segments_;
  Backing& other = moves ? static_cast<Backing&>(segments_) : movable_;
  absl::Status status = own.Extend(arena, size, wait_policy);
  // Not before: what goes back costs the host calls that wait for the device.
  if (!absl::IsResourceExhausted(status) || wait_policy < WaitPolicy::kThroughStreamWaits) return status;
  if (other.held() == Bytes(0)) return status;
  // Where a stream is captured or the driver fails, some of it stays.
  if (wait_policy == WaitPolicy::kWithHostWaits) static_cast<void>(clocks_.WaitForAll());
  // What is held may be above a limit that was set later.
  const Bytes above = std::max(limit_.taken() - limit_.most(), Bytes(0));
  const absl::StatusOr<Bytes> returned = other.ReturnFree(above + RoundUp(size, kPageSize), std::nullopt);
  if (!returned.ok()) return returned.status();
  return *returned > Bytes(0) ? own.Extend(arena, size, wait_policy) : status;
}

template <typename Which>
absl::StatusOr<Bytes> PairedBacking::ReturnOfBoth(absl::StatusOr<Bytes> (Backing::*give_back)(Bytes, const Which&),
                                                  Bytes enough, const Which& which) {
  absl::StatusOr<Bytes> handles = (movable_.*give_back)(enough, which);
  if (!handles.ok() || *handles >= enough || segments_.held() == Bytes(0)) return handles;
  absl::StatusOr<Bytes> segments = (segments_.*give_back)(enough - *handles, which);
  if (!segments.ok()) return segments;
  return *handles + *segments;
}

absl::StatusOr<Bytes> PairedBacking::ReturnFree(Bytes enough, const OnlyPool& only) {
  return ReturnOfBoth(&Backing::ReturnFree, enough, only);
}

absl::StatusOr<Bytes> PairedBacking::ReturnIdle(Bytes enough, const UseMarks& marks) {
  return ReturnOfBoth(&Backing::ReturnIdle, enough, marks);
}

absl::Status PairedBacking::KeepInPlace(Address start, Bytes size, bool keep) {
  const Extent* const extent = arenas_.ExtentWith(start);
  if (extent != nullptr && extent->kind() == MemoryKind::kSegment) return segments_.KeepInPlace(start, size, keep);
  return movable_.KeepInPlace(start, size, keep);
}

void PairedBacking::CheckInvariants() const {
  movable_.CheckInvariants();
  segments_.CheckInvariants();
}

}  // namespace frugal
