// Which figures of the table of driver costs (allocator/port/driver_cost_table.h) each call is charged. How much that
// is, the machine's table says.

#ifndef FRUGAL_CUDA_SIMULATED_LATENCY_MODEL_H_
#define FRUGAL_CUDA_SIMULATED_LATENCY_MODEL_H_

#include <cstdint>

#include "allocator/port/driver_cost_table.h"
#include "allocator/port/units.h"
#include "cuda/simulated/clock.h"

namespace frugal::sim {

class CallCost {
 public:
  // `amount` times one figure.
  constexpr explicit CallCost(int64_t DriverCosts::*figure, int64_t amount = 1) : figure_(figure), amount_(amount) {}
  // By the size.
  constexpr CallCost(int64_t (DriverCosts::*by_size)(Bytes) const, Bytes size) : by_size_(by_size), size_(size) {}
  // Nothing.
  constexpr CallCost() = default;

  constexpr Nanoseconds In(const DriverCosts& costs) const {
    if (by_size_ != nullptr) return Nanoseconds((costs.*by_size_)(size_));
    return Nanoseconds(figure_ == nullptr ? 0 : costs.*figure_ * amount_);
  }

 private:
  int64_t DriverCosts::*figure_ = nullptr;
  int64_t amount_ = 0;
  int64_t (DriverCosts::*by_size_)(Bytes) const = nullptr;
  Bytes size_;
};

struct LatencyModel {
  static constexpr CallCost Create(Bytes size) { return {&DriverCosts::Create, size}; }
  static constexpr CallCost Map() { return CallCost(&DriverCosts::map); }
  // Page tables are written handle by handle, and GPU by GPU.
  static constexpr CallCost SetAccess(int64_t handles) { return CallCost(&DriverCosts::set_access, handles); }
  static constexpr CallCost Unmap(int64_t handles) { return CallCost(&DriverCosts::unmap, handles); }
  static constexpr CallCost Release() { return CallCost(&DriverCosts::release); }
  static constexpr CallCost Reserve() { return CallCost(&DriverCosts::reserve); }
  static constexpr CallCost Unreserve() { return CallCost(&DriverCosts::reserve); }
  static constexpr CallCost Malloc(Bytes size) { return {&DriverCosts::Malloc, size}; }
  // The wait for the device that comes with it depends on the work, not on the driver, and is not in the model.
  static constexpr CallCost Free() { return CallCost(&DriverCosts::free); }
  static constexpr CallCost MemoryInfo() { return CallCost(&DriverCosts::memory_info); }
  static constexpr CallCost EventRecord() { return CallCost(&DriverCosts::event_record); }
  static constexpr CallCost EventQuery() { return CallCost(&DriverCosts::event_query); }
  static constexpr CallCost StreamWait() { return CallCost(&DriverCosts::stream_wait); }
  // Waits and launches are the program's own work, not the allocator's, and questions that the driver answers from its
  // own books take next to nothing: counted, without a cost.
  static constexpr CallCost Uncharged() { return {}; }
};

}  // namespace frugal::sim

#endif  // FRUGAL_CUDA_SIMULATED_LATENCY_MODEL_H_
