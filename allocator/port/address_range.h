// A range of memory.

#pragma once

#include "allocator/port/units.h"

namespace frugal {

struct AddressRange {
  Address address;
  Bytes size;
  friend bool operator==(const AddressRange&, const AddressRange&) = default;
};

}  // namespace frugal
