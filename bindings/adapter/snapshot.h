// Our segments in the form of PyTorch's snapshots.

#pragma once

#include <vector>

#include "allocator/device_allocator.h"
#include "bindings/adapter/torch_compat.h"

namespace frugal {

// Adds ours to native's and sorts all by device and address, as native does. Mapped segments appear as expandable ones,
// which is what PyTorch calls memory made of parts that are mapped.
// REQUIRES: a History::NoteReader that is older than `ours`, so that the notes on their blocks are still there.
void AddSegments(std::vector<caching_types::SegmentInfo>& segments, c10::DeviceIndex device,
                 const std::vector<SegmentView>& ours, bool mapped_too);

// NCCL's process group takes a snapshot for each communicator then, and registers what it finds in it. It would go on
// to use the physical memory that was at an address after that memory has moved, so it must not find ours unless that
// stays where it is. (Refusing the process group's tracker instead would end the program: its constructor has started
// threads by then.)
bool NcclRegistersEverySegment();

}  // namespace frugal
