// Which GPU the simulated one says it is: its name and what a program may ask about its chip.

#pragma once

#include <string>
#include <string_view>

#include "allocator/port/units.h"

namespace frugal::sim {

// Without more, one like NVIDIA's of the Hopper generation.
struct GpuModel {
  std::string name = "Simulated GPU";
  // Somebody has said what it is like.
  bool is_given = false;
  // 89 for compute capability 8.9.
  int capability = 90;
  int multiprocessors = 132;
  Bytes l2 = MiB(50);
  // What a block may have of the shared memory if it asks for it, and what a multiprocessor has.
  Bytes shared_of_block = KiB(227);
  Bytes shared_of_multiprocessor = KiB(228);
  // Of a multiprocessor.
  int threads = 2048;
  int blocks = 32;
  int bus_bits = 5120;
  int memory_kilohertz = 2'619'000;

  // From "name=NVIDIA L4,capability=8.9,multiprocessors=58". What the text leaves out follows from its capability, or
  // stays as it is. False, with a reason in `problem`, if it is not understood.
  static bool Parse(std::string_view text, GpuModel* model, std::string* problem);

  // The capability that the kernels which PyTorch brings for this GPU were compiled for: the highest of its generation
  // that is not above its own. CUB runs no algorithm for one that it was not compiled for.
  int CompiledCapability() const;
};

}  // namespace frugal::sim
