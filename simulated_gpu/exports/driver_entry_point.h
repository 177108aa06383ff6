// The driver's functions by name, for cuGetProcAddress and cudaGetDriverEntryPoint.

#pragma once

namespace frugal::sim {

// What `name`, without a version suffix, meant in that release (12080 for CUDA 12.8; 0 for the newest); nullptr if
// there is no such function. One that is not simulated answers "not supported".
void* FindDriverEntryPoint(const char* name, int cuda_version);

}  // namespace frugal::sim
