// What a test, a benchmark or the replay asks of the simulated GPU beyond CUDA: exported by the
// simulated libcudart.so, and found there with dlsym(RTLD_DEFAULT, ...) or ctypes.
//
// The environment, read once when the library is loaded:
//   FRUGAL_SIM_MEMORY      bytes of memory of each GPU (default 16 GiB)
//   FRUGAL_SIM_CONTEXT     bytes that the driver keeps for itself on each GPU (default 512 MiB)
//   FRUGAL_SIM_GPUS        number of GPUs (default 1)
//   FRUGAL_SIM_KERNEL_NS   time that each kernel takes on its stream (default 0: all is finished at once)
//   FRUGAL_SIM_FAULTS      a fault plan, as for frugal_sim_set_faults
//   FRUGAL_SIM_BACKING     "memory" (default) or "none": no host memory behind the addresses, for replays,
//                          which never touch them
//   FRUGAL_SIM_VMM         "0": a GPU without virtual memory management
//   FRUGAL_SIM_VERBOSE     "1": names on stderr each CUDA function that was called and is not simulated
//
// Kinds of call that are counted, by name: "create" "map" "set_access" "unmap" "release" "reserve" "unreserve"
// "malloc" "free" "sync" (the host waited for a stream, an event or the device) "event_record" "event_query"
// "stream_wait" "launch".

#ifndef FRUGAL_CUDA_SIMULATED_CONTROL_H_
#define FRUGAL_CUDA_SIMULATED_CONTROL_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Calls of a kind since the start or the last reset; UINT64_MAX for a kind that does not exist.
uint64_t frugal_sim_calls(const char* kind);
// Time that all driver calls since the last reset would have taken, by the latency model of docs/simulated_gpu.md.
uint64_t frugal_sim_driver_ns(void);
void frugal_sim_reset_counters(void);

// Physical memory in use on a GPU, without the driver's own; and its highest since the last reset.
uint64_t frugal_sim_memory_used(int gpu);
uint64_t frugal_sim_memory_peak(int gpu);

// From here on time stands still but for this call; `ns` never goes back.
void frugal_sim_set_clock(uint64_t ns);
// All work that is on the stream now will have passed at `ns`.
void frugal_sim_set_stream_busy_until(void* stream, uint64_t ns);

// A plan like "create@3=out_of_memory,map@1=invalid_value": call n (from 1, counted from now) of a kind
// fails with that error; "@3+" means the third and all after. "" ends the plan. 0 if the plan was
// understood; otherwise nothing changes.
int frugal_sim_set_faults(const char* plan);

// Whether this thread's graph launches run the recorded copies and fills (1, the default) or nothing (0),
// because somebody else computes the values.
void frugal_sim_set_graph_execution(int on);

#ifdef __cplusplus
}
#endif

#endif  // FRUGAL_CUDA_SIMULATED_CONTROL_H_
