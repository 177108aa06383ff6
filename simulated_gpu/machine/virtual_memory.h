// Virtual memory management: handles of physical memory, address ranges, and the mappings (views) between them.

#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "allocator/port/units.h"
#include "simulated_gpu/machine/address_space.h"
#include "simulated_gpu/machine/calls.h"
#include "simulated_gpu/machine/driver_memory.h"
#include "simulated_gpu/machine/error.h"
#include "simulated_gpu/machine/order_checker.h"
#include "simulated_gpu/machine/physical_memory.h"
#include "simulated_gpu/machine/quota.h"
#include "simulated_gpu/machine/shared_range.h"

namespace frugal::sim {

// The rules are the CUDA driver's; where it leaves a case open, the stricter reading. A call that fails has changed
// nothing, but for an Unmap that the fault plan says stops half-way. Every size and address is a multiple of kPageSize.
// Thread-safe.
class VirtualMemory {
 public:
  // Names a handle; never 0, never used twice.
  using HandleId = uint64_t;
  using Access = AddressSpace::Access;

  struct GpuAccess {
    int gpu;
    Access access;
  };

  // What is mapped at an address.
  struct View {
    Address start;
    Bytes size;
    HandleId handle;
    int gpu;
  };

  struct Parts {
    AddressSpace& addresses;
    std::vector<PhysicalMemory*> memory;  // By GPU.
    Calls& calls;
    Quota& mapped_handles;
    Quota& host_mappings;
    DriverMemory& driver_memory;
    std::function<bool(int gpu)> is_busy;
    OrderChecker* order = nullptr;  // May be null.
  };

  // `supported` false: a GPU without virtual memory management, where every call is kNotSupported.
  VirtualMemory(Parts parts, bool supported) : parts_(std::move(parts)), supported_(supported) {}
  VirtualMemory(const VirtualMemory&) = delete;
  VirtualMemory& operator=(const VirtualMemory&) = delete;

  bool supported() const { return supported_; }

  Error Reserve(Bytes size, Bytes alignment, Address wish, Address* start);
  // Of a whole reservation, nothing mapped in it.
  Error Unreserve(Address start, Bytes size);

  Error Create(int gpu, Bytes size, HandleId* handle);
  // Ends one reference. The memory goes with the last reference and the last view.
  Error Release(HandleId handle);
  // One more reference to the handle that is mapped at `address`.
  Error Retain(Address address, HandleId* handle);

  // The whole handle. kAlreadyMapped if anything is mapped in the range. It stays out of reach until SetAccess.
  Error Map(Address start, Bytes size, HandleId handle);
  // The whole range must be mapped, and lie in one reservation. Host code reaches it if any GPU may. A view takes a
  // mapped handle for each GPU that may reach it, from now on until it may no more.
  Error SetAccess(Address start, Bytes size, const std::vector<GpuAccess>& accesses);
  Error GetAccess(Address address, int gpu, Access* access) const;
  // Whole views of one reservation only, without a hole between them.
  Error Unmap(Address start, Bytes size);

  // A descriptor for another process (SharedRange::ToDescriptor). The host keeps memory that was ever exported.
  Error Export(HandleId handle, int* fd);
  Error Import(int fd, HandleId* handle);

  // The handle's size and GPU.
  Error Describe(HandleId handle, Bytes* size, int* gpu) const;
  std::optional<View> Find(Address address) const;

 private:
  struct Handle {
    Bytes size;
    int gpu;
    FileRange range;
    int references;
    int views;
    bool exported;
    bool imported;  // Another process's memory: not counted here.
  };
  struct Mapping {
    Bytes size;
    HandleId handle;
    uint32_t readers = 0;  // One bit for each GPU.
    uint32_t writers = 0;
    int64_t mapped_handles() const { return std::popcount(readers); }
    Access host_access() const { return writers ? Access::kReadWrite : readers ? Access::kRead : Access::kNone; }
  };
  using Mappings = std::map<Address, Mapping>;

  // As Calls::Begin(), where there is virtual memory.
  Error Begin(CallKind kind, int64_t amount = 1, bool* partial = nullptr);
  bool IsReserved(Address start, Bytes size) const;
  // The first of the mappings that fill [start, start + size) exactly; end() if they do not, or it is no part of one
  // reservation.
  Mappings::iterator FindExact(Address start, Bytes size);
  Mappings::const_iterator FindAround(Address address) const;
  // What a range takes of limited things.
  struct Needs {
    int64_t mapped_handles = 0;
    int64_t host_mappings = 0;
  };
  Needs NeedsOf(Mappings::const_iterator first, Address end) const;
  // From what the range took before to what it takes now. False if there is not as much; nothing has changed then.
  bool Exchange(const Needs& before, const Needs& now);
  // The driver's page tables for what `accesses` let reach the range.
  Error MakePageTables(Address start, Bytes size, const std::vector<GpuAccess>& accesses);
  // Sets, without showing it to the host, what `accesses` say. What was there before.
  std::vector<Mapping> Permit(Mappings::iterator first, Address end, const std::vector<GpuAccess>& accesses);
  // Takes back what Permit() did.
  static void Restore(Mappings::iterator first, const std::vector<Mapping>& before);
  // Shows the host what `mappings_` says of [start, start + size), which is mapped whole.
  Error Attach(Address start, Bytes size);
  // Unmaps the views from `first` up to `end`.
  Error Forget(Mappings::iterator first, Address end);
  void DropIfUnused(std::unordered_map<HandleId, Handle>::iterator handle);
  void NoteIfBusy(Mappings::const_iterator first, Address end);

  const Parts parts_;
  const bool supported_;

  mutable std::mutex mutex_;
  std::map<Address, Bytes> reservations_;
  std::unordered_map<HandleId, Handle> handles_;
  HandleId next_handle_ = 1;
  Mappings mappings_;
};

}  // namespace frugal::sim
