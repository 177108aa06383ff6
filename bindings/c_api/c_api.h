/* The library's own functions, in C, so that every Python and every compiler can call them. The Python package loads
   them with ctypes. Those that <frugal_alloc/torch.h> wraps for C++ are in its detail/c_functions.h.

   A function that can fail returns a negative number, or null, and leaves one line for frugal_last_error(). All may be
   called from any thread. What is said to be JSON is valid until the next answer in JSON on the thread. */

#pragma once

#include <stdint.h>

#include "bindings/include/frugal_alloc/detail/c_functions.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All else in the library is hidden. */
#pragma GCC visibility push(default)

/* The torch that the library was built for, and the one that runs (0: unknown): 211 for 2.11. */
int frugal_built_torch_version(void);
int frugal_running_torch_version(void);

/* 0, or -1. All may be called again, and while other threads allocate. FRUGAL_ALLOC_CONF says with which settings;
   FRUGAL_ALLOC=0 makes enabling succeed and do nothing. */
int frugal_enable(void);
/* Every setting in force, in the same form; before the first enabling those that it would use. Null: FRUGAL_ALLOC_CONF
   is not possible. Valid until the next call on this thread. */
const char* frugal_settings(void);
/* One setting's value, or what it would be; null: there is no such setting. Valid as above. */
const char* frugal_setting(const char* key);

/* Gives idle memory of all GPUs back to the driver; returns the bytes, or -1. */
int64_t frugal_trim(void);

/* What idle_release does at the end of each interval, for programs that would rather have no thread: gives memory that
   nothing has used since the last call back to the driver, without waiting for a stream; returns the bytes, or -1. */
int64_t frugal_release_idle(void);

/* As frugal_sleep(), of a program of which is known what it holds: of what is meant, the blocks of these storages
   (c10::StorageImpl) sleep, and the rest stays awake. `no_pools`: why no memory that CUDA graphs read can sleep, which
   is the error if it would; null: it can. */
const char* frugal_sleep_held(const char* tags, const char* keep, const char* drop, const char* host, int poison,
                              const void* const* storages, int64_t count, const char* no_pools);
/* Whoever asks a storage (a c10::StorageImpl) for its data gets an error with this message, until its memory wakes. 1;
   0: it does not sleep. */
int frugal_mark_asleep(void* storage, const char* message);
/* The block of a storage that sleeps, as JSON: {"address", "tag", "site": 0 where it was not recorded}; else "null". */
const char* frugal_asleep_block(void* storage);
/* Copies so many bytes of a storage to the host, from `offset` on, if its memory sleeps: 1. 0: it does not. -1: they
   were not copied when it fell asleep. */
int frugal_copy_asleep(void* storage, int64_t offset, int64_t size, void* to);
/* Bytes of all GPUs in blocks that are handed out and have one of these tags, awake or asleep; -1. */
int64_t frugal_tagged_bytes(const char* tags);

/* A library is about to take GPU memory of its own, as NCCL does for a communicator: gives idle memory back until a
   16th of each GPU is free, as far as there is some. Waits a second at most. 0, or -1 before the first enabling. */
int frugal_make_room(void);

/* What the driver of a GPU promises and does not keep, and what is lost by it: one line for people. "": nothing is
   known. Valid as long as the process. */
const char* frugal_broken_promise(int device);

/* Where the memory of a GPU that has been used is the host's (a Jetson's, a DGX Spark's): how much of it can be had and
   who has the rest, for people. "": the GPU has memory of its own. Valid until the next call on this thread. */
const char* frugal_host_memory(int device);

/* 1 if the address lies in our memory. */
int frugal_owns(const void* address);

/* The program has told PyTorch these settings of its allocator in the middle of a run. Returns 1 if new memory is
   cudaMalloc's from then on, as it has said. Does nothing before frugal_enable. */
int frugal_follow_settings(const char* settings);
/* What programs are to read where PyTorch says that `settings` are in force. All texts are valid until the next call on
   this thread. */
const char* frugal_shown_settings(const char* settings);

/* Waits until the GPU has done all that it was told so far, if frugal_make_shareable has something to move: to be
   called first, without locks that the work might wait for. 0; -1: the work fails. */
int frugal_await_shareable(void* storage);
/* Moves a tensor's bytes into memory that another process can open, if they are in ours and cannot be opened where they
   are. `storage` is a c10::StorageImpl (in Python UntypedStorage._cdata) that no other thread uses meanwhile. 1: moved,
   0: nothing to do, -1: it cannot be shared, -2: there is no memory for it; the storage is then as it was. */
int frugal_make_shareable(void* storage);
/* 1: the memory of the storage is free once it is gone; 0: not, since another process or object has it, too. */
int frugal_owns_its_memory(void* storage);

/* --- Where memory is asked for.

   Memory counts to a site: the lines of Python that led to the allocation, the node of a backward pass, or the phase of
   the program that the thread is in, as the program names its phases. Blocks of less than 256 KiB are sampled. Setting
   track:off records nothing. */

/* Lets sites have lines of Python, which are read without the interpreter's lock; called by a Python function with the
   file, the name and the line of itself. -1: this Python's frames cannot be read, and sites have no lines. */
int frugal_read_python(const char* file, const char* function, int line);
/* The interpreter is about to end. */
void frugal_forget_python(void);
/* Tags that tasks of Python's enter, see bindings/tracking/python_context.h: the number of a tag (0: we were never
   enabled; -1); 1 if the calling thread's `context` is one in which `variable` was found to be `entered`, with this
   tag, 0 if tags have to be threads' (frugal_tag()); and that so many more contexts have one. */
int frugal_tag_number(const char* name);
int frugal_find_context(const void* variable, int64_t hash, const void* context, const void* entered, int tag);
int frugal_follow_contexts(int change);
/* Which code is the user's own, by the beginnings of file names: one a line, after 'u' for the user's, 'f' for the
   user's unless it lies in a folder further down, or 'n' for others'. The longest that fits counts; where none does, it
   is the user's. For lines of Python that are met from now on. */
void frugal_set_code_owners(const char* beginnings);

const char* frugal_phase_name(int phase);

/* {"number", "phase", "frames": [{"file", "line", "function"}, ...] with the innermost first, "node": of a backward
   pass, as "MulBackward0", or "", "forward": the site at which that node was made; 0: not known}, as JSON. Sites are
   numbered from 0, which is no known site. Null: there is no such site. */
const char* frugal_site(int site);
/* The calling thread records its next 10,000 allocations whatever their size, as when an epoch has ended; other threads
   do from their next sample on. */
void frugal_record_in_detail(void);
/* How often memory counted to no site, since there was no room for one more: 65,536 are kept. */
int64_t frugal_sites_left_out(void);

/* What each site holds, a list in JSON: {"gpu", "site", "live_bytes", "blocks", "peak_bytes": alive when most of the
   GPU's memory was in use, within 2 %}. */
const char* frugal_site_usages(void);
/* From now on peak_bytes is of the highest since now. */
void frugal_restart_site_peaks(int gpu);
/* The most of a GPU's memory that was in use since the last call, as far as it is recorded. Writes what is in use and
   what is held now: a step's end asks for all three, and should take little. */
int64_t frugal_take_peak(int gpu, int64_t* in_use, int64_t* held);
/* The numbers of the GPUs that memory has been asked for, a list in JSON. */
const char* frugal_gpus(void);
/* The memory of all GPUs as it is, a list in JSON: {"gpu", "address", "bytes", "stream", "mapped": false of a segment
   of cudaMalloc, which cannot move, "unusable_bytes": free, but beside blocks in use in the same handle, "blocks"}. A
   block is [address, bytes, "free", "allocated" or "awaiting": freed, but a stream may still use it, site, or 0 where
   it was not recorded, epoch of birth, or -1]. */
const char* frugal_segments(void);

/* PyTorch's private pools, a list in JSON: {"gpu", "id": two numbers, "site": where it was made; 0: not known,
   "captured": by a graph, "holders": graphs and objects; 0: it was released, "reserved_bytes", "allocated_bytes",
   "kept_bytes": free, and nobody else's as long as somebody holds the pool, "idle_bytes": in segments that hold
   nothing, which come back once nobody holds the pool}. */
const char* frugal_private_pools(void);

/* --- Leaks, by epoch. */

int64_t frugal_epochs_ended(void);
/* All epochs so far become the first, which has not ended. */
int frugal_collapse_epochs(void);
/* Each two epochs become one. */
int frugal_halve_epochs(void);
/* Calls of modules end epochs from now on (1), or no more (0). */
void frugal_count_module_calls(int on);
/* How many of them make an epoch now; 0: they end none. */
int64_t frugal_module_calls_to_epoch(void);
/* When they have ended an epoch, schedule(..., NULL) is called with what then calls `call`, on any thread and with the
   locks of PyTorch's that an allocation holds: it may only make a note, as Py_AddPendingCall does. Not again before
   that call has begun. NULL: nobody wants to know. */
void frugal_set_epoch_listener(int (*schedule)(int (*call)(void*), void*), int (*call)(void*));

/* What frugal_report_findings() writes, as a list in JSON: {"kind": "leak", "suspect" or "growing", "gpu", "site",
   "bytes", "blocks", "epochs", "bytes_per_epoch", "confidence", "largest_block"}. Empty: we were never enabled, too. */
const char* frugal_findings(void);

/* --- While the process runs.

   A process answers `frugal-alloc top` of its user by a thread of the library's (docs/monitoring.md). Setting
   publish:off: it does not. */

/* What leaks or grows, as its user is told. */
struct frugal_published_verdict {
  const char* kind; /* "leak", "suspect", "growing", "cycle" or "outside" */
  int gpu;
  const char* text; /* one line for people */
  double bytes_per_epoch;
};
/* From now on the answers have these verdicts in the place of the library's own: for whoever knows more than it does.
   The texts are copied. */
void frugal_publish_verdicts(const struct frugal_published_verdict* verdicts, int count);
/* 1 if somebody has been answered since the last call: whether it is worth the while to judge anew. */
int frugal_take_look(void);
/* The latest out-of-memory error of a GPU is thought to have this cause: "too_big", "leak", "fragmentation" or
   "outside". Another does nothing. */
void frugal_correct_verdict(int gpu, const char* verdict);

/* --- Out of memory. */

/* A function that says why memory ran out: its text follows PyTorch's first sentences in the error. Called on the
   thread that asked, with no lock held, before the error is thrown, with all that is known of the request: JSON with
   the keys of a report's "oom" (docs/reference/report.md). Its text is read before it is called again on the same
   thread; null: it has nothing to say. Null takes the function away. */
void frugal_set_explainer(const char* (*explainer)(const char* facts));

/* A function that collects garbage and returns how many objects it found; called when memory has run out, with no
   lock held. Null takes it away. */
void frugal_set_garbage_collector(int (*collector)(void));

/* While `value` is 1, PyTorch's calls to record memory history are for our memory alone: to take part in a recording
   that native began before us. Does nothing before frugal_enable. */
void frugal_set_history_only_ours(int value);

/* --- The journal of what PyTorch's allocator does, whichever it is. */

/* 1: started, 0: it was on, 2: PyTorch has not started CUDA; marks and labels are taken, and the rest is once this has
   been called again after that. -1: the allocator in PyTorch's place lets nobody listen. A child by fork begins with an
   empty journal, which is off. */
int frugal_journal_start(void);
/* Both do nothing while the journal is off. */
void frugal_journal_mark(const char* text);
void frugal_journal_label(uint64_t address, const char* text);
/* Copies from the host and workspaces of libraries get labels from now on, "copied from host" and "workspace". 1; 0:
   the GPU is not simulated, or does not tell. */
int frugal_journal_observe_simulation(void);

/* How often the program has entered a module from outside of any and allocated there. */
int64_t frugal_journal_module_calls(void);
/* Writes at most `capacity` entries from number `from` on, the oldest first, and returns how many. An entry has 40
   bytes, little-endian: struct JournalEntry of bindings/adapter/journal.h. */
int64_t frugal_journal_read(int64_t from, void* entries, int64_t capacity);
/* Entries one after another, and nothing else. 0, or -1. */
int frugal_journal_write(const char* path);
/* The texts that numbers of marks and labels stand for, a list in JSON; the same text has one number. */
const char* frugal_journal_texts(void);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
