// Where CPython keeps what a traceback shows, by version, and the variables of a context. These structures are
// internal, but do not change within a minor version once it is released. Source:
// Include/cpython/{pystate.h,code.h,unicodeobject.h,frameobject.h}, Include/internal/{pycore_frame.h,
// pycore_interpframe_structs.h,pycore_context.h,pycore_hamt.h}.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace frugal {

// Offsets in bytes, in all that follows.

// PyThreadState: the current frame, or (is_indirect) a structure that has it at `within`.
struct ThreadLayout {
  size_t frame;
  bool is_indirect = false;
  size_t within = 0;
};

// A frame. 3.10's are objects of their own; later ones lie on the thread's stack.
struct FrameLayout {
  size_t previous;
  size_t code;
  size_t instruction;
  bool instruction_is_index = false;  // an int, in instructions of two bytes; else a pointer into the code
  size_t owner = 0;  // a byte that tells the interpreter's own frames, which stand for no function; 0: there are none
};

// PyCodeObject: co_filename, co_name, co_qualname (0: 3.10 has none), co_linetable, and the first instruction,
// which 3.10 has elsewhere.
struct CodeLayout {
  size_t file = 112;
  size_t function = 120;
  size_t qualified = 128;
  size_t lines = 136;
  size_t first_instruction;
};

// PyUnicodeObject: the characters of text that is all ASCII, and of other text.
struct TextLayout {
  size_t ascii;
  size_t other;
};

struct PythonLayout {
  int minor;
  ThreadLayout thread;
  FrameLayout frame;
  CodeLayout code;
  TextLayout text;
};

inline constexpr std::array<PythonLayout, 5> kPythonLayouts = {{
    {.minor = 10,
     .thread = {.frame = 24},
     .frame = {.previous = 24, .code = 32, .instruction = 96, .instruction_is_index = true},
     .code = {.file = 104, .function = 112, .qualified = 0, .lines = 120, .first_instruction = 0},
     .text = {.ascii = 48, .other = 72}},
    {.minor = 11,
     .thread = {.frame = 56, .is_indirect = true, .within = 8},
     .frame = {.previous = 48, .code = 32, .instruction = 56},
     .code = {.first_instruction = 184},
     .text = {.ascii = 48, .other = 72}},
    {.minor = 12,
     .thread = {.frame = 56, .is_indirect = true, .within = 0},
     .frame = {.previous = 8, .code = 0, .instruction = 56, .owner = 70},
     .code = {.first_instruction = 192},
     .text = {.ascii = 40, .other = 56}},
    {.minor = 13,
     .thread = {.frame = 72},
     .frame = {.previous = 8, .code = 0, .instruction = 56, .owner = 70},
     .code = {.first_instruction = 200},
     .text = {.ascii = 40, .other = 56}},
    {.minor = 14,
     .thread = {.frame = 72},
     .frame = {.previous = 8, .code = 0, .instruction = 56, .owner = 74},
     .code = {.first_instruction = 208},
     .text = {.ascii = 40, .other = 56}},
}};

// FRAME_OWNED_BY_CSTACK until 3.13; 3.14's FRAME_OWNED_BY_INTERPRETER, above which is that of the C stack. From here on
// in FrameLayout::owner.
inline constexpr unsigned char kOwnedByNoFunction = 3;

// Bits of a reference to an object that 3.14 (pycore_stackref.h) marks; no object's address has them.
inline constexpr uintptr_t kReferenceMarks = 7;

// PyUnicodeObject, in all of these versions.
inline constexpr size_t kTextLength = 16;
inline constexpr size_t kTextState = 32;
inline constexpr unsigned kKindShift = 2;  // of the state: bytes for each character
inline constexpr unsigned kKindMask = 7;
inline constexpr unsigned kIsCompact = 1U << 5;
inline constexpr unsigned kIsAscii = 1U << 6;

// Also in all of them. Any object: its type, the slots of a class of the program's; of one with a variable size, that.
inline constexpr size_t kObjectType = 8;
inline constexpr size_t kFirstSlot = 16;
inline constexpr size_t kSecondSlot = 24;
inline constexpr size_t kVariableSize = 16;
// PyTypeObject and PyBytesObject.
inline constexpr size_t kTypeName = 24;
inline constexpr size_t kBytes = 32;
// PyContext, the PyHamtObject in it, and the nodes of that: the pairs of a key and a value in those of two kinds, the
// bits of a bitmap node, and the children of an array node.
inline constexpr size_t kContextMap = 24;
inline constexpr size_t kMapRoot = 16;
inline constexpr size_t kMapPairs = 32;
inline constexpr size_t kMapBits = 24;
inline constexpr size_t kMapArray = 16;

}  // namespace frugal
