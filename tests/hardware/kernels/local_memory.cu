// A kernel that cannot run without local memory, of which the driver then needs some for every thread that fits on the
// device.

constexpr unsigned kWords = 256;

extern "C" __global__ void local_memory(unsigned* out, unsigned turns) {
  unsigned words[kWords];
  for (unsigned i = 0; i < kWords; ++i) words[i] = i + turns;
  unsigned place = threadIdx.x;
  // Which word comes next is known only now, so that none of them can live in a register.
  for (unsigned i = 0; i < turns; ++i) place = words[place % kWords] + i;
  out[threadIdx.x] = place;
}
