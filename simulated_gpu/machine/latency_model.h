// Which figure of the table of driver costs (allocator/port/driver_cost_table.h) each call is charged. How much that
// is, the machine's table says.

#pragma once

#include <cstdint>

#include "allocator/port/driver_cost_table.h"
#include "allocator/port/units.h"
#include "simulated_gpu/machine/call_kind.h"

namespace frugal::sim {

// In nanoseconds. `amount` is the bytes of what is made, or how many handles a call goes through: page tables are
// written handle by handle, and GPU by GPU.
constexpr int64_t CostOf(CallKind kind, int64_t amount, const DriverCosts& costs) {
  switch (kind) {
    case CallKind::kCreate:
      return costs.Create(Bytes(amount));
    case CallKind::kMalloc:
      return costs.Malloc(Bytes(amount));
    case CallKind::kMap:
      return costs.map;
    case CallKind::kSetAccess:
    case CallKind::kPeerAccess:
      return costs.set_access * amount;
    case CallKind::kUnmap:
      return costs.unmap * amount;
    case CallKind::kRelease:
      return costs.release;
    case CallKind::kReserve:
    case CallKind::kUnreserve:
      return costs.reserve;
    case CallKind::kFree:
      // The wait for the device that comes with it depends on the work, not on the driver, and is not in the model.
      return costs.free;
    case CallKind::kMemoryInfo:
      return costs.memory_info;
    case CallKind::kEventRecord:
      return costs.event_record;
    case CallKind::kEventQuery:
      return costs.event_query;
    case CallKind::kStreamWait:
      return costs.stream_wait;
    default:
      // Waits and launches are the program's own work, not the allocator's, and questions that the driver answers from
      // its own books take next to nothing: counted, without a cost.
      return 0;
  }
}

}  // namespace frugal::sim
