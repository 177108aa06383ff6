// Writes through one address, and reads through another one of the same memory.

extern "C" __global__ void fill(unsigned* words, unsigned long long count, unsigned value) {
  const unsigned long long step = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
  for (unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) words[i] = value;
}

// Adds to `wrong` how many words are not `value`.
extern "C" __global__ void compare(const unsigned* words, unsigned long long count, unsigned value, unsigned* wrong) {
  const unsigned long long step = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
  unsigned others = 0;
  for (unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) others += words[i] != value;
  if (others != 0) atomicAdd(wrong, others);
}

// As fill and compare, for programmatic dependent launch: the second may begin before the first has ended. Devices
// before Hopper have no such launch, and there these are ordinary kernels.
extern "C" __global__ void fill_early(unsigned* words, unsigned long long count, unsigned value) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
  const unsigned long long step = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
  for (unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) words[i] = value;
}

extern "C" __global__ void compare_early(const unsigned* words, unsigned long long count, unsigned value,
                                         unsigned* wrong) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  const unsigned long long step = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
  unsigned others = 0;
  for (unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) others += words[i] != value;
  if (others != 0) atomicAdd(wrong, others);
}
