// A range of memory.

#ifndef FRUGAL_ALLOCATOR_PORT_ADDRESS_RANGE_H_
#define FRUGAL_ALLOCATOR_PORT_ADDRESS_RANGE_H_

#include "allocator/port/units.h"

namespace frugal {

struct AddressRange {
  Address address;
  Bytes size;
  friend bool operator==(const AddressRange&, const AddressRange&) = default;
};

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_PORT_ADDRESS_RANGE_H_
