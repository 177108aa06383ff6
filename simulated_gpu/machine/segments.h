// Memory that the driver gives out whole, address and all: cudaMalloc and its kin, and what other processes share so.

#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "allocator/port/units.h"
#include "simulated_gpu/machine/address_space.h"
#include "simulated_gpu/machine/calls.h"
#include "simulated_gpu/machine/error.h"
#include "simulated_gpu/machine/order_checker.h"
#include "simulated_gpu/machine/peers.h"
#include "simulated_gpu/machine/physical_memory.h"
#include "simulated_gpu/machine/quota.h"
#include "simulated_gpu/machine/shared_range.h"

namespace frugal::sim {

// Thread-safe.
class Segments {
 public:
  enum class Kind { kDevice, kManaged, kImported };

  struct Segment {
    Address start;
    Bytes size;
    int gpu;
    Kind kind;
    FileRange range;
    bool exported;
    // One for each GPU that may reach it.
    int64_t mapped_handles = 1;
  };

  struct Parts {
    AddressSpace& addresses;
    std::vector<PhysicalMemory*> memory;  // By GPU.
    Calls& calls;
    Peers& peers;
    Quota& mapped_handles;
    Quota& host_mappings;
    OrderChecker* order = nullptr;  // May be null.
  };

  explicit Segments(Parts parts) : parts_(std::move(parts)) {}
  Segments(const Segments&) = delete;
  Segments& operator=(const Segments&) = delete;

  // Rounded up to whole pages. Of size 0: nothing, at no address.
  Error Malloc(int gpu, Bytes size, Kind kind, Address* start);
  // The caller has waited for the GPU where that is called for. Address() is nothing to free.
  Error Free(Address start);

  // Another process's memory, until CloseImported().
  Error OpenImported(const SharedRange& shared, Address* start);
  Error CloseImported(Address start);
  // The segment around `address`, for another process. The host keeps memory that was ever exported.
  Error Export(Address address, SharedRange* shared);

  // `gpu` may reach the segments of `peer`, those that there are and those to come. The driver maps what is there at
  // once, one by one.
  Error EnablePeer(int gpu, int peer);
  Error DisablePeer(int gpu, int peer);

  std::optional<Segment> Find(Address address) const;
  Bytes managed(int gpu) const;

 private:
  using ByStart = std::map<Address, Segment>;

  Error Place(Segment segment, Address* start);
  Error PlaceAt(Address start, const Segment& segment);
  ByStart::const_iterator FindAround(Address address) const;
  Error Remove(ByStart::iterator segment);

  const Parts parts_;

  mutable std::mutex mutex_;
  ByStart segments_;
};

}  // namespace frugal::sim
