// Reads and writes a range in order, and reads it at random.

struct alignas(16) Vector {
  unsigned words[4];
};

extern "C" __global__ void copy(Vector* to, const Vector* from, unsigned long long count) {
  const unsigned long long step = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
  for (unsigned long long i = blockIdx.x * static_cast<unsigned long long>(blockDim.x) + threadIdx.x; i < count;
       i += step) {
    to[i] = from[i];
  }
}

// Each thread reads `reads` vectors of 16 bytes, each anywhere in the range; what it adds up keeps the reads alive.
extern "C" __global__ void gather(const Vector* from, unsigned long long count, unsigned reads, unsigned* sum) {
  unsigned long long state = (blockIdx.x * static_cast<unsigned long long>(blockDim.x) + threadIdx.x) * 2 + 1;
  unsigned total = 0;
  for (unsigned i = 0; i < reads; ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    total += from[__umul64hi(state, count)].words[0];
  }
  if (total == 0xffffffffu) atomicAdd(sum, 1u);
}
