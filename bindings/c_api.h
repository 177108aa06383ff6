/* The library's own functions, in C, so that every Python and every compiler can call them. The Python package loads
   them with ctypes; include/frugal_alloc/torch.h wraps them for C++.

   A function that can fail returns a negative number and leaves one line for frugal_last_error(). All may be called
   from any thread. */

#ifndef FRUGAL_BINDINGS_C_API_H_
#define FRUGAL_BINDINGS_C_API_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* All else in the library is hidden. */
#pragma GCC visibility push(default)

/* The last failure on this thread; valid until the next. "" if there was none. */
const char* frugal_last_error(void);

/* The torch that the library was built for, and the one that runs (0: unknown): 211 for 2.11. */
int frugal_built_torch_version(void);
int frugal_running_torch_version(void);

/* 0, or -1. Both may be called again, and while other threads allocate. */
int frugal_enable(void);
int frugal_disable(void);
/* 1 while new memory is ours. */
int frugal_is_enabled(void);

/* Gives idle memory of all GPUs back to the driver; returns the bytes, or -1. */
int64_t frugal_trim(void);

/* Names of the figures, separated by spaces, in the order in which frugal_stats writes them. */
const char* frugal_stat_names(void);
/* Writes at most `capacity` figures of a GPU, and returns how many there are. All are 0 for a GPU that has not been
   used. -1: we were never enabled. */
int frugal_stats(int device, int64_t* figures, int capacity);

/* 1 if the address lies in our memory. */
int frugal_owns(const void* address);

/* Moves a tensor's bytes into memory that another process can open, if they are in ours and cannot be opened where they
   are. `storage` is a c10::StorageImpl (in Python UntypedStorage._cdata) that no other thread uses meanwhile. 1: moved,
   0: nothing to do, -1: it cannot be shared, -2: there is no memory for it; the storage is then as it was. */
int frugal_make_shareable(void* storage);

/* A function that collects garbage and returns how many objects it found; called when memory has run out, with no
   lock held. Null takes it away. */
void frugal_set_garbage_collector(int (*collector)(void));

/* While `value` is 1, PyTorch's calls to record memory history are for our memory alone: to take part in a recording
   that native began before us. Does nothing before frugal_enable. */
void frugal_set_history_only_ours(int value);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif /* FRUGAL_BINDINGS_C_API_H_ */
