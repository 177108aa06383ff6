// The lines of Python that the calling thread is at, read without the interpreter's lock.
//
// Most of PyTorch allocates with the lock released. To take it for each sampled allocation would make threads wait for
// one another, and a thread that allocates while it holds another lock could wait for ever. But the frames of a thread
// change only while that thread runs Python, so the thread itself may read them at any time. Where they lie is known
// for the versions of CPython below, and is checked against the interpreter's own word before it is relied upon.
// Thread-safety: any thread.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace frugal {

// An instruction of a function. Two with the same figures are the same, as far as one can tell: the memory of code
// that is gone may be used for another, so that more than its address is compared.
struct PythonFrame {
  const void* code;
  const void* lines;    // the code's table of lines
  const void* file;     // the object of the code's file name
  int32_t instruction;  // in bytes from the code's first

  friend bool operator==(const PythonFrame&, const PythonFrame&) = default;
};

// As people know it.
struct CodeLine {
  std::string file;
  std::string function;
  int line = 0;
};

// Frames of deeper calls than this are left out, the outermost.
inline constexpr size_t kMostPythonFrames = 128;

// Looks for the interpreter of this process. OK: frames can be read from now on. kUnavailable: there is none, or none
// whose frames are known; then there are none.
absl::Status FindPython();
// `file`, `function` and `line` are those of the innermost frame of the calling thread, by the interpreter's word. If
// what is read there differs, frames are read no more. kInternal: it differs.
absl::Status CheckPython(const CodeLine& innermost);
// The interpreter is about to end: there are no frames any more.
void ForgetPython();
// Whether frames are read.
inline std::atomic<bool> python_is_known{false};
inline bool KnowsPython() { return python_is_known.load(std::memory_order_relaxed); }

// Writes the frames of the calling thread, the innermost first, and returns how many there are.
size_t CapturePython(absl::Span<PythonFrame> frames);
// REQUIRES: the frame was captured on this thread, which has run no Python since.
CodeLine Describe(const PythonFrame& frame);
// As Describe, its function's name with those of the classes and functions around it, "Swish.backward"; "" where this
// version of Python has none.
std::string QualifiedName(const PythonFrame& frame);

}  // namespace frugal
