// What a test, a benchmark or the replay asks of the simulated GPU beyond CUDA: exported by the simulated libcuda.so.1,
// which every simulated libcudart.so needs, so that dlsym(RTLD_DEFAULT, ...) and ctypes find it through either.
//
// docs/simulated_gpu_inside.md lists the variables of the environment, which are read once when the library is loaded.
// What cannot be understood ends the process at once with one line on stderr and exit status 2.
//
// Kinds of call that are counted, by name: "create" "map" "set_access" "unmap" "release" "reserve" "unreserve"
// "malloc" "free" "sync" (the host waited for a stream, an event or the device) "event_record" "event_query"
// "stream_wait" "launch" "memory_info" (how much memory is free) "event_create" "capture_query" (whether a stream is
// being captured) "context" (of a GPU or a thread, asked for or set) "ipc" (a handle that other processes know,
// made, opened or closed) "peer_access" (a GPU let into another's memory). And "unmap_while_busy": unmaps, counted as
// "unmap" too, while a stream of the GPU had work outstanding. That the work touches what was unmapped is not known, so
// it is a hint, not an error.

#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Calls of a kind since the start or the last reset; UINT64_MAX for a kind that does not exist. "driver.map": those
// that functions of the driver (cu...) made, not of the runtime (cuda...).
uint64_t frugal_sim_calls(const char* kind);
// Time that all driver calls since the last reset would have taken, by docs/simulated_gpu_inside.md's latency model.
uint64_t frugal_sim_driver_ns(void);
void frugal_sim_reset_counters(void);

// Views and segments, each as often as there are GPUs that may reach it: of the node, if the process belongs to one.
uint64_t frugal_sim_mapped_handles(void);

// Physical memory in use on a GPU, without the driver's own, which is cheap enough to ask at every allocation; and its
// highest since the last reset.
uint64_t frugal_sim_memory_used(int gpu);
uint64_t frugal_sim_memory_peak(int gpu);
// What the driver has taken of it for itself beside its context (FRUGAL_SIM_FULL), and libraries for themselves.
uint64_t frugal_sim_memory_of_driver(int gpu);
// What of it is managed memory (cudaMallocManaged), which a GPU that is full moves to the host and this one keeps.
uint64_t frugal_sim_memory_managed(int gpu);
// Takes `bytes` of it, a multiple of 2 MiB, for a library that the driver knows of and this process's allocator does
// not; below 0: gives them back. 0 if there are not as many left.
int frugal_sim_take_for_driver(int gpu, int64_t bytes);

// From here on `observer` is called, by the thread that calls CUDA and outside of locks, with
//   1: the device memory that a copy from the host is enqueued to, also into a graph;
//   2: the workspace that one of NVIDIA's libraries is given, each time that it is.
// Null: nobody is called, as at the start.
void frugal_sim_set_observer(void (*observer)(int kind, uint64_t address, int64_t bytes));
// Tells the observer of a workspace: for libraries that take the place of NVIDIA's.
void frugal_sim_note_workspace(const void* start, uint64_t bytes);

// 1 where the libraries' workspaces are modelled by the GPU (FRUGAL_SIM_WORKSPACES), else 0; and, for them, its compute
// capability, 89 for 8.9, and how many multiprocessors it has.
int frugal_sim_modelled_workspaces(int* capability, int* multiprocessors);

// The names, with spaces between, of the functions of CUDA's and its libraries' that were called, are not simulated,
// and so answered "not supported". Left out are a few that programs can do without. The text stays.
const char* frugal_sim_unsupported_functions(void);

// Copies and fills of device memory of more bytes than this move nothing (FRUGAL_SIM_KEEP).
uint64_t frugal_sim_kept_bytes(void);

// Writes as much of a file of the kernel's as fits into `text`, as it reads on the host whose memory the GPU has
// (FRUGAL_SIM_UNIFIED), and returns its whole length; 0: that host has no such file, -1: the real one is as good.
int64_t frugal_sim_host_file(const char* path, char* text, uint64_t size);

// From here on time stands still but for this call; `ns` never goes back.
void frugal_sim_set_clock(uint64_t ns);
// The stream has work up to `ns`, or for longer if it had before.
void frugal_sim_set_stream_busy_until(void* stream, uint64_t ns);

// A plan like "create@3=out_of_memory,map@1=invalid_value": call n (from 1, counted from now) of a kind
// fails with that error; "@3+" means the third and all after; "=late_unknown", that the call is made and the
// next one of any kind fails; "unmap@2=partial_unknown", that half of its views are unmapped first; "driver.create@3",
// the third of the driver's own functions (cu...). "" ends the plan. 0 if the plan was understood; otherwise nothing
// changes.
int frugal_sim_set_faults(const char* plan);
// Calls that have failed by the plan since it was set.
uint64_t frugal_sim_faults(void);

// --- The order of work: that of any two operations which touch the same byte, one of them writing, one comes after the
// other by streams, events and what the host has waited for. Copies, fills and what is declared by frugal_sim_touch are
// checked. When the process exits it says on stderr how much was checked; if anything was found, it says what, and ends
// with exit status 3 instead of its own. A process that leaves by _exit() or a signal says nothing.

// Whether FRUGAL_SIM_ORDER is on. Without it the functions below do nothing, and return 0.
int frugal_sim_checks_order(void);
// An operation called `name` on `stream` of this thread's GPU reads, or writes, `bytes` from `start`, which must be
// mapped device memory. It takes no time. On a stream that is being captured it becomes a node of the graph. 0 if there
// is no such stream.
int frugal_sim_touch(void* stream, const void* start, uint64_t bytes, int writes, const char* name);
// Accesses checked so far, and pairs of operations without order (or without memory) found among them.
uint64_t frugal_sim_order_accesses(void);
uint64_t frugal_sim_order_violations(void);
// Writes as much of the report as fits into `text`, one line for each of the first violations, and a 0; returns its
// whole length.
uint64_t frugal_sim_order_report(char* text, uint64_t size);

// Whether this thread's graph launches run the recorded copies and fills (1, the default) or nothing (0),
// because somebody else computes the values.
void frugal_sim_set_graph_execution(int on);

#ifdef __cplusplus
}
#endif
