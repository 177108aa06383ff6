#include "cuda/simulated/libraries/nccl_call.h"

#include <utility>

namespace frugal::sim::nccl {
namespace {

// One part of a buffer for each rank.
size_t ForEach(int size, size_t bytes) { return static_cast<size_t>(size) * bytes; }

}  // namespace

const char* Call::name() const {
  switch (kind) {
    case Kind::kAllReduce:
      return "ncclAllReduce";
    case Kind::kReduce:
      return "ncclReduce";
    case Kind::kBroadcast:
      return "ncclBroadcast";
    case Kind::kAllGather:
      return "ncclAllGather";
    case Kind::kReduceScatter:
      return "ncclReduceScatter";
    case Kind::kAllToAll:
      return "ncclAlltoAll";
    case Kind::kGather:
      return "ncclGather";
    case Kind::kScatter:
      return "ncclScatter";
    case Kind::kSend:
      return "ncclSend";
    case Kind::kReceive:
      return "ncclRecv";
  }
  return "";
}

size_t Call::BytesSent(int rank, int size) const {
  switch (kind) {
    case Kind::kReduceScatter:
    case Kind::kAllToAll:
      return ForEach(size, bytes());
    case Kind::kScatter:
      return rank == peer ? ForEach(size, bytes()) : 0;
    case Kind::kBroadcast:
      return rank == peer ? bytes() : 0;
    case Kind::kReceive:
      return 0;
    default:
      return bytes();
  }
}

size_t Call::BytesReceived(int rank, int size) const {
  switch (kind) {
    case Kind::kAllGather:
    case Kind::kAllToAll:
      return ForEach(size, bytes());
    case Kind::kGather:
      return rank == peer ? ForEach(size, bytes()) : 0;
    case Kind::kReduce:
      return rank == peer ? bytes() : 0;
    case Kind::kSend:
      return 0;
    default:
      return bytes();
  }
}

bool Call::IsSmall(int size) const {
  const bool in_parts = kind == Kind::kReduceScatter || kind == Kind::kAllToAll || kind == Kind::kScatter;
  return (in_parts ? ForEach(size, bytes()) : bytes()) <= kMostMoved;
}

CollectiveTransfer::Section Call::SectionOf(int writer, int reader, int size) const {
  const auto place = [&](int rank) { return ForEach(rank, bytes()); };
  auto* const target = static_cast<char*>(receive);
  const size_t all = BytesSent(writer, size);
  switch (kind) {
    case Kind::kAllReduce:
      return {all, 0, bytes(), nullptr};
    case Kind::kReduce:
      return {all, 0, reader == peer ? bytes() : 0, nullptr};
    case Kind::kBroadcast:
      return {all, 0, writer == peer ? bytes() : 0, target};
    case Kind::kAllGather:
      return {all, 0, bytes(), target + place(writer)};
    case Kind::kReduceScatter:
      return {all, place(reader), bytes(), nullptr};
    case Kind::kAllToAll:
      return {all, place(reader), bytes(), target + place(writer)};
    case Kind::kGather:
      return {all, 0, reader == peer ? bytes() : 0, reader == peer ? target + place(writer) : nullptr};
    case Kind::kScatter:
      return {all, place(reader), writer == peer ? bytes() : 0, target};
    default:
      return {};
  }
}

std::unique_ptr<Transfer> Call::MakeTransfer(Exchange& exchange) const {
  if (kind == Kind::kSend) return std::make_unique<SendTransfer>(exchange, peer, send, bytes());
  if (kind == Kind::kReceive) return std::make_unique<ReceiveTransfer>(exchange, peer, receive, bytes());
  CollectiveTransfer::Plan plan;
  plan.kind = static_cast<uint64_t>(kind);
  plan.data = send;
  for (int rank = 0; rank < exchange.size(); ++rank) {
    plan.sections.push_back(SectionOf(rank, exchange.rank(), exchange.size()));
  }
  if (kind == Kind::kAllReduce || kind == Kind::kReduce || kind == Kind::kReduceScatter) {
    plan.reduction = reduction;
    plan.target = receive;
  }
  return std::make_unique<CollectiveTransfer>(exchange, std::move(plan));
}

}  // namespace frugal::sim::nccl
