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

/* 0, or -1. All may be called again, and while other threads allocate. FRUGAL_ALLOC_CONF says with which settings;
   FRUGAL_ALLOC=0 makes enabling succeed and do nothing. */
int frugal_enable(void);
int frugal_disable(void);
/* As frugal_enable, with "key:value,key:value" (docs/tuning.md) on top of FRUGAL_ALLOC_CONF or, once we are installed,
   of the settings in force. A setting that is not possible fails with one line that says what is, and changes
   nothing. Null: none. */
int frugal_enable_with(const char* settings);
/* Every setting in force, in the same form; before the first enabling those that it would use. Null: FRUGAL_ALLOC_CONF
   is not possible. Valid until the next call on this thread. */
const char* frugal_settings(void);
/* One line for people that names those of PyTorch's settings (`settings`; null: what PYTORCH_ALLOC_CONF says) that do
   not hold for our memory, each with the reason and once in the life of the process; "" if there are none. Valid until
   the next call on this thread. */
const char* frugal_unfollowed_settings(const char* settings);
/* 1 while new memory is ours. */
int frugal_is_enabled(void);

/* Gives idle memory of all GPUs back to the driver; returns the bytes, or -1. */
int64_t frugal_trim(void);

/* What idle_release does at the end of each interval, for programs that would rather have no thread: gives memory that
   nothing has used since the last call back to the driver, without waiting for a stream; returns the bytes, or -1. */
int64_t frugal_release_idle(void);

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

/* --- Leaks, by epoch.

   Memory counts to the part of the program that allocates it, as the program names its parts, each thread for itself.
   Nothing is recorded before the first epoch has ended. */

/* A part of the program; the same number for the same name. 0 for "": no named part. */
int frugal_site(const char* name);
/* What the calling thread allocates belongs to this part from now on. Returns the one before; -1: there is no such
   part. */
int frugal_set_site(int site);
/* Memory of this part may grow from epoch to epoch: no report names it. 0, or -1: there is no such part. */
int frugal_expect_growth(int site);
/* An epoch of the program has ended. 0; -1: we were never enabled. */
int frugal_epoch_end(void);

/* Blocks of one part and one size class, of which every epoch leaves some behind. */
struct frugal_finding {
  int verdict; /* 1: suspect, 2: leak */
  int gpu;
  const char* site;      /* "" if the memory belongs to no named part */
  int64_t largest_block; /* the blocks have more than half of these bytes, and up to these */
  int64_t bytes;         /* kept from past epochs, without those of the first two */
  int64_t blocks;
  int64_t epochs; /* that they are from */
  double bytes_per_epoch;
  double confidence; /* that the part grows at all, from 0 to 1 */
};
struct frugal_report;
/* As of the latest end of an epoch. The caller frees it; what the functions below give lives as long. Null: we were
   never enabled. */
struct frugal_report* frugal_make_report(void);
void frugal_free_report(struct frugal_report* report);
/* Several lines for people. */
const char* frugal_report_text(const struct frugal_report* report);
int64_t frugal_report_epochs(const struct frugal_report* report);
/* Writes at most `capacity`, the leaks first, and returns how many there are. */
int frugal_report_findings(const struct frugal_report* report, struct frugal_finding* findings, int capacity);

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
