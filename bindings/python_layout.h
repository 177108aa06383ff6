// Where CPython keeps what a traceback shows, by version. These structures are internal, but do not change within a
// minor version once it is released.
// Source: Include/cpython/{pystate.h,code.h,unicodeobject.h,frameobject.h}, Include/internal/pycore_frame.h.

#ifndef FRUGAL_BINDINGS_PYTHON_LAYOUT_H_
#define FRUGAL_BINDINGS_PYTHON_LAYOUT_H_

#include <array>
#include <cstddef>

namespace frugal {

// Offsets in bytes.
struct PythonLayout {
  int minor;
  // PyThreadState: the current frame, or (is_indirect) a structure that has it at current_frame.
  size_t thread_frame;
  bool is_indirect;
  size_t current_frame;
  // A frame. 3.10's are objects of their own; later ones lie on the thread's stack.
  size_t previous;
  size_t code;
  size_t instruction;
  bool instruction_is_index;  // an int, in instructions of two bytes; else a pointer into the code
  size_t owner;               // a byte that tells frames of the C stack, which stand for no function; 0: there are none
  // PyCodeObject.
  size_t file;
  size_t function;  // co_name
  size_t lines;     // co_linetable
  size_t first_instruction;
  // PyUnicodeObject: the characters of text that is not all ASCII.
  size_t characters_ascii;
  size_t characters;
};

inline constexpr std::array<PythonLayout, 4> kPythonLayouts = {{
    {.minor = 10,
     .thread_frame = 24,
     .is_indirect = false,
     .current_frame = 0,
     .previous = 24,
     .code = 32,
     .instruction = 96,
     .instruction_is_index = true,
     .owner = 0,
     .file = 104,
     .function = 112,
     .lines = 120,
     .first_instruction = 0,
     .characters_ascii = 48,
     .characters = 72},
    {.minor = 11,
     .thread_frame = 56,
     .is_indirect = true,
     .current_frame = 8,
     .previous = 48,
     .code = 32,
     .instruction = 56,
     .instruction_is_index = false,
     .owner = 0,
     .file = 112,
     .function = 120,
     .lines = 136,
     .first_instruction = 184,
     .characters_ascii = 48,
     .characters = 72},
    {.minor = 12,
     .thread_frame = 56,
     .is_indirect = true,
     .current_frame = 0,
     .previous = 8,
     .code = 0,
     .instruction = 56,
     .instruction_is_index = false,
     .owner = 70,
     .file = 112,
     .function = 120,
     .lines = 136,
     .first_instruction = 192,
     .characters_ascii = 40,
     .characters = 56},
    {.minor = 13,
     .thread_frame = 72,
     .is_indirect = false,
     .current_frame = 0,
     .previous = 8,
     .code = 0,
     .instruction = 56,
     .instruction_is_index = false,
     .owner = 70,
     .file = 112,
     .function = 120,
     .lines = 136,
     .first_instruction = 200,
     .characters_ascii = 40,
     .characters = 56},
}};

// FRAME_OWNED_BY_CSTACK, in PythonLayout::owner.
inline constexpr unsigned char kOwnedByCStack = 3;

// PyUnicodeObject, in all of these versions.
inline constexpr size_t kTextLength = 16;
inline constexpr size_t kTextState = 32;
inline constexpr unsigned kKindShift = 2;  // of the state: bytes for each character
inline constexpr unsigned kKindMask = 7;
inline constexpr unsigned kIsCompact = 1U << 5;
inline constexpr unsigned kIsAscii = 1U << 6;

}  // namespace frugal

#endif  // FRUGAL_BINDINGS_PYTHON_LAYOUT_H_
