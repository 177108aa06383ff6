// The tag that a task of Python's has entered: frugal_alloc.tag() keeps it in a context variable, so that it goes with
// the task wherever asyncio, or whoever else has contexts, runs that next.
//
// It is read as allocations need it, without the interpreter's lock: see python_stack.h for why. A context changes only
// as its thread runs Python, and so do the maps in it, which never change once they are made.
// Thread-safety: any thread.

#pragma once

#include <cstdint>

namespace frugal {

// What a `with` has entered, bindings/frugal_alloc/_sleep/tags.py, in an object's first two slots: the one around it,
// which is itself for the outermost, and bytes of one byte, the tag, or 0 once it was left.
struct EnteredTag {
  const void* object;
  uint8_t tag;
};

// The calling thread runs in the context `context`, where `variable`, of this hash, has the value `entered`. False:
// that is not what is found there, so nothing is read in this Python.
bool FindPythonContext(const void* variable, int64_t hash, const void* context, EnteredTag entered);
// The interpreter is about to end: there are no contexts any more.
void ForgetPythonContext();
// Of the calling thread's context; 0: none.
uint8_t PythonContextTag();

}  // namespace frugal
