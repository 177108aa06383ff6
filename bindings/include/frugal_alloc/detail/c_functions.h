/* The library's C functions that <frugal_alloc/torch.h> is made of. Programs call that header's instead: these may
   change with any version. The library's own bindings/c_api/c_api.h has all others.

   A function that can fail returns a negative number, or null, and leaves one line for frugal_last_error(). All may be
   called from any thread. */

#ifndef FRUGAL_ALLOC_DETAIL_C_FUNCTIONS_H_
#define FRUGAL_ALLOC_DETAIL_C_FUNCTIONS_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* All else in the library is hidden. */
#pragma GCC visibility push(default)

/* The last failure on this thread; valid until the next. "" if there was none. */
const char* frugal_last_error(void);

/* Enables us, with "key:value,key:value" (docs/tuning.md) on top of FRUGAL_ALLOC_CONF or, once we are installed,
   of the settings in force. A setting that is not possible fails with one line that says what is, and changes
   nothing. Null: none. FRUGAL_ALLOC=0 makes it succeed and do nothing. 0, or -1. */
int frugal_enable_with(const char* settings);
int frugal_disable(void);

/* One line for people that names those of PyTorch's settings (`settings`; null: what PYTORCH_ALLOC_CONF says) that do
   not hold for our memory, each with the reason and once in the life of the process; "" if there are none. Valid until
   the next call on this thread. */
const char* frugal_unfollowed_settings(const char* settings);

/* 1 while new memory is ours. */
int frugal_is_enabled(void);

/* Names of the figures, separated by spaces, in the order in which frugal_stats writes them. */
const char* frugal_stat_names(void);
/* Writes at most `capacity` figures of a GPU, and returns how many there are. All are 0 for a GPU that has not been
   used. -1: we were never enabled. */
int frugal_stats(int device, int64_t* figures, int capacity);

/* With `keep` 1, the physical memory behind [address, address + bytes) stays where it is, also after a tensor there has
   been freed, until this is called with 0: for memory that others have registered, such as a network card. Whole
   handles are kept, of 2 MiB or more. 0; -1: it cannot be kept. Memory that is not ours never moves, so there it does
   nothing. */
int frugal_keep_in_place(const void* address, int64_t bytes, int keep);

/* With `enter` 1, memory that the calling thread asks for is cudaMalloc's until this is called with 0: neither ours nor
   PyTorch's expandable segments, but what cudaIpcGetMemHandle takes. May be nested. 0, also where we were never
   enabled, where it does nothing; -1: PyTorch's setting cannot be changed. */
int frugal_cuda_malloc(int enter);

/* What the calling thread allocates has this tag until frugal_untag(), as has what PyTorch's threads allocate in its
   backward passes meanwhile. May be nested; "": none. 0, also where we were never enabled, where it does nothing. */
int frugal_tag(const char* name);
int frugal_untag(void);

/* Memory that has a tag falls asleep: it keeps its addresses, its contents are copied to the host's memory, and its
   physical memory goes back to the driver. Lists are names separated by "\n". `tags`: these alone; null: all. `keep`:
   but not these. `drop`: these are not copied, and have no contents when they wake; with `poison` 1 they are NaN then.
   `host`: "pinned" or "pageable" (memory of the host). Waits for all work of the GPUs. Returns what it did as JSON,
   valid until the next such call on the thread. Null: all is as before. */
const char* frugal_sleep(const char* tags, const char* keep, const char* drop, const char* host, int poison);
/* What sleeps wakes: of these tags, or with null all. Returns JSON as above. Null: it sleeps as before. */
const char* frugal_wake(const char* tags);
/* What sleeps, as JSON. */
const char* frugal_asleep(void);
/* The block of a storage (a c10::StorageImpl) has this tag from now on. 1; 0: it is no memory of ours, or null; -1. */
int frugal_retag(const void* storage, const char* name);

/* A phase of the program; the same number for the same name. 0 for "": no named phase. */
int frugal_phase(const char* name);
/* What the calling thread allocates belongs to this phase from now on. Returns the one before; -1: there is no such
   phase. */
int frugal_set_phase(int phase);

/* Memory of this phase may grow from epoch to epoch: no report names it. 0, or -1: there is no such phase. */
int frugal_expect_growth(int phase);

/* An epoch of the program has ended. 0; -1: we were never enabled. */
int frugal_epoch_end(void);

/* Blocks of one line or phase, of which every epoch leaves some behind. */
struct frugal_finding {
  int verdict; /* 1: suspect, 2: leak, 3: nothing is left behind, but what is replaced grows */
  int gpu;
  int site;              /* the one of the line's that grows most */
  const char* name;      /* "train.py:12 in step", or the phase's; "" if the memory belongs to no named phase */
  int64_t largest_block; /* the blocks have more than half of these bytes, and up to these */
  int64_t bytes;         /* kept from past epochs, without those of the first two */
  int64_t blocks;
  int64_t epochs; /* that they are from */
  double bytes_per_epoch;
  double confidence; /* that the phase grows at all, from 0 to .99 */
  int material;      /* 0: the GPU would last for more than 10,000 epochs, all smaller findings included */
};
struct frugal_report;
/* As of the latest end of an epoch. The caller frees it; what the functions below give lives as long. Null: we were
   never enabled. */
struct frugal_report* frugal_make_report(void);
void frugal_free_report(struct frugal_report* report);
/* Several lines for people. */
const char* frugal_report_text(const struct frugal_report* report);
int64_t frugal_report_epochs(const struct frugal_report* report);
/* Writes at most `capacity`, the material ones first, and returns how many there are. */
int frugal_report_findings(const struct frugal_report* report, struct frugal_finding* findings, int capacity);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif /* FRUGAL_ALLOC_DETAIL_C_FUNCTIONS_H_ */
