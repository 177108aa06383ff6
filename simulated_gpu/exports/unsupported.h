/* What the generated stubs of functions that are not simulated call. */

#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/* Returns 801, "not supported" in both the runtime's and the driver's numbers. The name is kept for
   frugal_sim_unsupported_functions(); under FRUGAL_SIM_VERBOSE=1 it is told on stderr, under FRUGAL_SIM_UNSUPPORTED=end
   the process ends with exit status 8. */
int frugal_sim_unsupported(const char* function);

#ifdef __cplusplus
}
#endif
