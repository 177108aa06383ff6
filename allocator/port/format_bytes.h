// Amounts as people read them: "1.50 GiB", "512 bytes". In Python it is bindings/frugal_alloc/_common/messages.py.

#pragma once

#include <string>

#include "allocator/port/units.h"

namespace frugal {

// In the largest unit of which there is one, GiB at most. As PyTorch writes sizes, but for its "1024.00 MiB", which is
// 1.00 GiB here.
std::string FormatBytes(Bytes size);
// Of a rate.
std::string FormatBytes(double size);

}  // namespace frugal
