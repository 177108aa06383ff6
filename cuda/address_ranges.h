// A set of addresses, as ranges none of which touches the next.

#pragma once

#include <map>

#include "allocator/port/units.h"

namespace frugal {

// Not thread-safe.
class AddressRanges {
 public:
  void Add(Address start, Bytes size);
  // What of it is not there changes nothing.
  void Remove(Address start, Bytes size);

  // Start and end of each range, in order.
  const std::map<Address, Address>& ranges() const { return ranges_; }

 private:
  std::map<Address, Address> ranges_;
};

}  // namespace frugal
