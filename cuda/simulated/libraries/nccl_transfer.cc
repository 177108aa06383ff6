#include "cuda/simulated/libraries/nccl_transfer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace frugal::sim::nccl {
namespace {

using Track = Exchange::Track;

// What is reduced at a time.
constexpr size_t kPiece = 256 << 10;
// A pair's data has no kind of its own.
constexpr uint64_t kOfPair = UINT64_MAX;

}  // namespace

void Transfer::Fail(Result result, std::string problem) {
  result_ = result;
  problem_ = std::move(problem);
}

bool Transfer::WriteOn(int reader, const void* data, size_t size, size_t* done) {
  if (*done == size) return false;
  const int64_t wrote = exchange_.Write(reader, static_cast<const char*>(data) + *done, size - *done);
  if (wrote < 0) Fail(kSystemError, std::string("shared memory cannot be written: ") + std::strerror(errno));
  if (wrote <= 0) return false;
  *done += static_cast<size_t>(wrote);
  return true;
}

bool Transfer::ReadOn(int writer, Track track, void* data, size_t size, size_t* done) {
  if (*done == size) return false;
  const int64_t got = exchange_.Read(writer, track, static_cast<char*>(data) + *done, size - *done);
  if (got < 0) Fail(kSystemError, std::string("shared memory cannot be read: ") + std::strerror(errno));
  if (got <= 0) return false;
  *done += static_cast<size_t>(got);
  return true;
}

CollectiveTransfer::CollectiveTransfer(Exchange& exchange, Plan plan)
    : Transfer(exchange), plan_(std::move(plan)), progress_(exchange.size()), pieces_(exchange.size()) {}

bool CollectiveTransfer::Advance() {
  if (is_done_) return false;
  if (!has_begun_) Begin();
  bool moved = WriteContribution();
  if (result() == kSuccess) moved |= plan_.reduction ? ReadAndReduce() : ReadSections();
  if (result() == kSuccess && HasWritten() && HasRead()) {
    Finish();
    moved = true;
  }
  return moved;
}

void CollectiveTransfer::Begin() {
  has_begun_ = true;
  KeepWhatWillBeOverwritten();
  const Section& own = plan_.sections[exchange().rank()];
  if (!plan_.reduction && own.size > 0) {
    std::memmove(own.target, static_cast<const char*>(plan_.data) + own.from, own.size);
  }
  for (int rank = 0; rank < exchange().size(); ++rank) {
    const Section& section = plan_.sections[rank];
    if (rank == exchange().rank() || section.size > 0) continue;
    exchange().Skip(rank, Track::kOfAll, sizeof(TransferHeader) + section.contribution);
    progress_[rank].passed = true;
  }
}

void CollectiveTransfer::KeepWhatWillBeOverwritten() {
  const auto* const data = static_cast<const char*>(plan_.data);
  const auto overlaps = [&](const void* target, size_t size) {
    const auto* const start = static_cast<const char*>(target);
    return size > 0 && start < data + OwnContribution() && data < start + size;
  };
  bool is_overwritten = plan_.reduction && plan_.reduction->factor != 1;
  for (int rank = 0; rank < exchange().size(); ++rank) {
    const Section& section = plan_.sections[rank];
    void* const target = plan_.reduction ? plan_.target : section.target;
    const bool stays = !plan_.reduction && rank == exchange().rank() && target == data + section.from;
    is_overwritten |= !stays && overlaps(target, section.size);
  }
  if (!is_overwritten) return;
  kept_.assign(data, data + OwnContribution());
  plan_.data = kept_.data();
  const size_t element = plan_.reduction ? SizeOf(plan_.reduction->type) : 0;
  if (element > 0) Scale(*plan_.reduction, kept_.data(), kept_.size() / element);
}

bool CollectiveTransfer::WriteContribution() {
  if (exchange().size() == 1) return false;
  const TransferHeader header{plan_.kind, OwnContribution()};
  bool moved = WriteOn(Exchange::kEverybody, &header, sizeof(header), &header_written_);
  if (result() == kSuccess && header_written_ == sizeof(header)) {
    moved |= WriteOn(Exchange::kEverybody, plan_.data, OwnContribution(), &written_);
  }
  return moved;
}

bool CollectiveTransfer::PassHeader(int rank) {
  Progress& progress = progress_[rank];
  if (progress.passed) return false;
  const bool moved = ReadOn(rank, Track::kOfAll, &progress.header, sizeof(progress.header), &progress.header_read);
  if (result() != kSuccess || progress.header_read < sizeof(progress.header)) return moved;
  const Section& section = plan_.sections[rank];
  if (progress.header != TransferHeader{plan_.kind, section.contribution}) {
    Fail(kInvalidUsage, "rank " + std::to_string(rank) + " called another collective, or with other sizes, than rank " +
                            std::to_string(exchange().rank()) + " at this point");
    return true;
  }
  exchange().Skip(rank, Track::kOfAll, section.from);
  progress.passed = true;
  return true;
}

bool CollectiveTransfer::ReadSections() {
  bool moved = false;
  for (int rank = 0; rank < exchange().size() && result() == kSuccess; ++rank) {
    const Section& section = plan_.sections[rank];
    if (rank == exchange().rank() || section.size == 0) continue;
    moved |= PassHeader(rank);
    if (!progress_[rank].passed || result() != kSuccess) continue;
    const size_t before = progress_[rank].read;
    moved |= ReadOn(rank, Track::kOfAll, section.target, section.size, &progress_[rank].read);
    if (before < section.size && progress_[rank].read == section.size) {
      exchange().Skip(rank, Track::kOfAll, section.contribution - section.from - section.size);
    }
  }
  return moved;
}

bool CollectiveTransfer::ReadAndReduce() {
  const Section& own = plan_.sections[exchange().rank()];
  if (own.size == 0) return false;  // Another rank's reduction.
  bool moved = false;
  // More than one piece may be there.
  while (reduced_ < own.size && result() == kSuccess) {
    const size_t piece = std::min(kPiece, own.size - reduced_);
    std::vector<const void*> parts;
    bool is_complete = true;
    for (int rank = 0; rank < exchange().size() && result() == kSuccess; ++rank) {
      const Section& section = plan_.sections[rank];
      if (rank == exchange().rank()) {
        parts.push_back(static_cast<const char*>(plan_.data) + section.from + reduced_);
        continue;
      }
      moved |= PassHeader(rank);
      pieces_[rank].resize(piece);
      if (progress_[rank].passed && result() == kSuccess) {
        moved |= ReadOn(rank, Track::kOfAll, pieces_[rank].data(), piece, &progress_[rank].read);
      }
      is_complete &= progress_[rank].read == piece;
      parts.push_back(pieces_[rank].data());
    }
    if (!is_complete || result() != kSuccess) return moved;
    Reduce(*plan_.reduction, parts, static_cast<char*>(plan_.target) + reduced_, piece / SizeOf(plan_.reduction->type));
    reduced_ += piece;
    for (Progress& progress : progress_) progress.read = 0;
    moved = true;
  }
  return moved;
}

bool CollectiveTransfer::HasWritten() const {
  return exchange().size() == 1 || (header_written_ == sizeof(TransferHeader) && written_ == OwnContribution());
}

bool CollectiveTransfer::HasRead() const {
  if (plan_.reduction) return reduced_ == plan_.sections[exchange().rank()].size;
  for (int rank = 0; rank < exchange().size(); ++rank) {
    if (rank != exchange().rank() && progress_[rank].read < plan_.sections[rank].size) return false;
  }
  return true;
}

void CollectiveTransfer::Finish() {
  is_done_ = true;
  if (!plan_.reduction) return;
  for (int rank = 0; rank < exchange().size(); ++rank) {
    const Section& section = plan_.sections[rank];
    if (rank == exchange().rank() || section.size == 0) continue;
    exchange().Skip(rank, Track::kOfAll, section.contribution - section.from - section.size);
  }
}

bool CollectiveTransfer::WaitsFor(int rank) const {
  if (rank == exchange().rank() || is_done_) return false;
  if (!HasWritten()) return true;
  const size_t wanted = plan_.sections[rank].size;
  if (plan_.reduction) return wanted > 0 && progress_[rank].read < std::min(kPiece, wanted - reduced_);
  return progress_[rank].read < wanted;
}

SendTransfer::SendTransfer(Exchange& exchange, int peer, const void* data, size_t size)
    : Transfer(exchange), peer_(peer), data_(data), size_(size) {}

bool SendTransfer::Advance() {
  const TransferHeader header{kOfPair, size_};
  bool moved = WriteOn(peer_, &header, sizeof(header), &header_written_);
  if (result() == kSuccess && header_written_ == sizeof(header)) moved |= WriteOn(peer_, data_, size_, &written_);
  return moved;
}

ReceiveTransfer::ReceiveTransfer(Exchange& exchange, int peer, void* target, size_t size)
    : Transfer(exchange), peer_(peer), target_(target), size_(size) {}

bool ReceiveTransfer::Advance() {
  if (IsDone()) return false;
  bool moved = ReadOn(peer_, Track::kOfPair, &header_, sizeof(header_), &header_read_);
  if (result() != kSuccess || header_read_ < sizeof(header_)) return moved;
  if (header_ != TransferHeader{kOfPair, size_}) {
    Fail(kInvalidUsage, "rank " + std::to_string(peer_) + " sends " + std::to_string(header_.size) +
                            " bytes and rank " + std::to_string(exchange().rank()) + " receives " +
                            std::to_string(size_));
    return true;
  }
  moved |= ReadOn(peer_, Track::kOfPair, target_, size_, &read_);
  return moved;
}

}  // namespace frugal::sim::nccl
