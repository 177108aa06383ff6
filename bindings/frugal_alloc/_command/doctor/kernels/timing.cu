// What the timing of driver calls needs: work that lasts, and work that is nothing.

__device__ unsigned long long Now() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

// One thread that keeps its stream busy.
extern "C" __global__ void spin(unsigned long long nanoseconds) {
  const unsigned long long end = Now() + nanoseconds;
  while (Now() < end) {
  }
}

extern "C" __global__ void nothing() {}
