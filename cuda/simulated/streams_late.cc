// The part of Streams that hands work to LateWork.

#include <memory>
#include <string>
#include <utility>

#include "cuda/simulated/streams.h"

namespace frugal::sim {
namespace {

std::string NameOfGpuToo(const Stream& stream) {
  if (stream.kind == Stream::Kind::kLegacy) return "the default stream of " + stream.context->Name();
  return "stream " + std::to_string(stream.id) + " of " + stream.context->Name();
}

}  // namespace

void Streams::AddLate(const Stream& stream, const std::shared_ptr<const Work>& work, Nanoseconds start, bool runs) {
  const bool moves_data = (runs || work->frees_memory) && work->run != nullptr;
  if (work->graph == nullptr) {
    if (moves_data || !work->uses.empty()) {
      state_.late_work->Add(start + work->duration, NameOfGpuToo(stream), work, moves_data);
    }
    return;
  }
  // Each node touches its memory when it ends.
  for (const auto& [node, end] : work->graph->Ends()) {
    const std::shared_ptr<const Work> part(work, &node->work);  // Keeps the graph.
    AddLate(stream, part, start + end - part->duration, moves_data);
  }
}

}  // namespace frugal::sim
