#include "bindings/tracking/python_stack.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "bindings/tracking/python_layout.h"

namespace frugal {
namespace {

// The interpreter's own functions. Those called here need no lock: they read what does not change.
struct Python {
  const PythonLayout* layout;
  void* (*this_thread)();                        // PyGILState_GetThisThreadState
  int (*line_of)(const void* code, int offset);  // PyCode_Addr2Line
};

// REQUIRES: python_is_known.
Python python = {};

template <typename T>
T Read(const void* object, size_t offset) {
  T value;
  std::memcpy(&value, static_cast<const char*>(object) + offset, sizeof(value));
  return value;
}

template <typename F>
bool FindFunction(const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(RTLD_DEFAULT, name));
  return function != nullptr;
}

// "3.11.2 (main, ...)"; null: unknown.
const PythonLayout* LayoutOf(absl::string_view version) {
  const std::vector<absl::string_view> parts = absl::StrSplit(version, '.');
  int minor = 0;
  if (parts.size() < 3 || parts[0] != "3" || !absl::SimpleAtoi(parts[1], &minor)) return nullptr;
  // Another memory layout, of every object.
  if (version.find("free-threading") != absl::string_view::npos) return nullptr;
  for (const PythonLayout& layout : kPythonLayouts) {
    if (layout.minor == minor) return &layout;
  }
  return nullptr;
}

void AppendUtf8(uint32_t character, std::string& text) {
  const auto add = [&text](uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (character < 0x80) return add(character);
  if (character < 0x800) {
    add(0xC0 | character >> 6);
  } else {
    if (character < 0x10000) {
      add(0xE0 | character >> 12);
    } else {
      add(0xF0 | character >> 18);
      add(0x80 | (character >> 12 & 0x3F));
    }
    add(0x80 | (character >> 6 & 0x3F));
  }
  add(0x80 | (character & 0x3F));
}

// Of a text object. Not by the interpreter's function for it, which stores what it computes in the object.
std::string TextOf(const PythonLayout& layout, const void* object) {
  constexpr size_t kMostCharacters = 4096;
  const auto state = Read<uint32_t>(object, kTextState);
  if ((state & kIsCompact) == 0) return "?";
  const size_t length = std::min(static_cast<size_t>(Read<int64_t>(object, kTextLength)), kMostCharacters);
  if ((state & kIsAscii) != 0) return {static_cast<const char*>(object) + layout.text.ascii, length};
  const size_t width = state >> kKindShift & kKindMask;
  std::string text;
  for (size_t i = 0; i < length; ++i) {
    uint32_t character = 0;
    std::memcpy(&character, static_cast<const char*>(object) + layout.text.other + i * width, width);
    AppendUtf8(character, text);
  }
  return text;
}

const void* CurrentFrame() {
  const void* thread = python.this_thread();
  if (thread == nullptr) return nullptr;
  const auto* frame = Read<const void*>(thread, python.layout->thread.frame);
  if (python.layout->thread.is_indirect && frame != nullptr)
    frame = Read<const void*>(frame, python.layout->thread.within);
  return frame;
}

PythonFrame ReadFrame(const PythonLayout& layout, const void* frame) {
  PythonFrame read;
  read.code = reinterpret_cast<const void*>(Read<uintptr_t>(frame, layout.frame.code) & ~kReferenceMarks);
  read.lines = Read<const void*>(read.code, layout.code.lines);
  read.file = Read<const void*>(read.code, layout.code.file);
  if (layout.frame.instruction_is_index) {
    read.instruction = 2 * Read<int32_t>(frame, layout.frame.instruction);
  } else {
    const auto* instruction = Read<const char*>(frame, layout.frame.instruction);
    read.instruction = static_cast<int32_t>(instruction - static_cast<const char*>(read.code) -
                                            static_cast<std::ptrdiff_t>(layout.code.first_instruction));
  }
  return read;
}

}  // namespace

absl::Status FindPython() {
  if (KnowsPython()) return absl::OkStatus();
  const char* (*version)() = nullptr;
  if (!FindFunction("Py_GetVersion", version)) return absl::UnavailableError("this process has no Python");
  const PythonLayout* const layout = LayoutOf(version());
  if (layout == nullptr) {
    return absl::UnavailableError(absl::StrCat("the frames of Python ", version(), " are not known"));
  }
  python.layout = layout;
  if (!FindFunction("PyGILState_GetThisThreadState", python.this_thread) ||
      !FindFunction("PyCode_Addr2Line", python.line_of)) {
    return absl::UnavailableError("this Python lacks a function that tells of frames");
  }
  python_is_known.store(true, std::memory_order_release);
  return absl::OkStatus();
}

absl::Status CheckPython(const CodeLine& innermost) {
  PythonFrame frame;
  if (CapturePython(absl::MakeSpan(&frame, 1)) > 0) {
    const CodeLine read = Describe(frame);
    const bool is_same =
        read.file == innermost.file && read.function == innermost.function && read.line == innermost.line;
    if (is_same) return absl::OkStatus();
  }
  ForgetPython();
  return absl::InternalError("the frames of this Python are not where they are in others of its version");
}

void ForgetPython() { python_is_known.store(false, std::memory_order_release); }

size_t CapturePython(absl::Span<PythonFrame> frames) {
  if (!python_is_known.load(std::memory_order_acquire)) return 0;
  const PythonLayout& layout = *python.layout;
  size_t count = 0;
  for (const void* frame = CurrentFrame(); frame != nullptr && count < frames.size();
       frame = Read<const void*>(frame, layout.frame.previous)) {
    if (layout.frame.owner != 0 && Read<unsigned char>(frame, layout.frame.owner) >= kOwnedByNoFunction) continue;
    frames[count++] = ReadFrame(layout, frame);
  }
  return count;
}

CodeLine Describe(const PythonFrame& frame) {
  if (!python_is_known.load(std::memory_order_acquire)) return {"?", "?", 0};
  const PythonLayout& layout = *python.layout;
  return {TextOf(layout, frame.file), TextOf(layout, Read<const void*>(frame.code, layout.code.function)),
          python.line_of(frame.code, frame.instruction)};
}

std::string QualifiedName(const PythonFrame& frame) {
  if (!python_is_known.load(std::memory_order_acquire)) return "";
  const PythonLayout& layout = *python.layout;
  if (layout.code.qualified == 0) return "";
  return TextOf(layout, Read<const void*>(frame.code, layout.code.qualified));
}

}  // namespace frugal
