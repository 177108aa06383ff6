/* The journal of what PyTorch's allocator does, whichever it is. As in c_api.h, a function that can fail returns a
   negative number and leaves one line for frugal_last_error(), and all may be called from any thread. */

#ifndef FRUGAL_BINDINGS_C_API_JOURNAL_API_H_
#define FRUGAL_BINDINGS_C_API_JOURNAL_API_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* All else in the library is hidden. */
#pragma GCC visibility push(default)

/* 40 bytes, little-endian. */
struct frugal_journal_entry {
  uint64_t address; /* of an out-of-memory error: bytes that the GPU has free */
  int64_t bytes;    /* of a block, those that were asked for */
  uint64_t stream;
  int64_t gpu_used; /* bytes of the GPU in use, the driver's context apart; -1: the GPU is not simulated */
  int32_t site;     /* as frugal_describe_site numbers it, of kinds 0, 3 and 5; of kinds 6 and 7 number of a text */
  int8_t kind;      /* 0: allocation, 1: free requested, 2: free completed, 3: segment taken or mapped, 4: segment given
                       back     or unmapped (said before it is done), 5: out of memory, 6: mark, 7: label */
  uint8_t flags;    /* of an allocation, 1: its thread records for a backward pass, 2: in a call of nn.Module */
  int16_t gpu;      /* -1 for marks and labels */
};

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
int64_t frugal_journal_size(void);
/* Writes at most `capacity` entries from number `from` on, the oldest first, and returns how many. */
int64_t frugal_journal_read(int64_t from, struct frugal_journal_entry* entries, int64_t capacity);
/* Entries one after another, and nothing else. 0, or -1. */
int frugal_journal_write(const char* path);
/* The texts that numbers of marks and labels stand for, a list in JSON; the same text has one number. Valid until the
   next answer in JSON on this thread. */
const char* frugal_journal_texts(void);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif /* FRUGAL_BINDINGS_C_API_JOURNAL_API_H_ */
