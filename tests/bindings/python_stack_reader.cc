// A library without torch that reads the lines of Python of its caller, to be loaded by any Python.

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "absl/synchronization/notification.h"
#include "bindings/tracking/python_stack.h"

namespace {

absl::Notification is_held;
absl::Notification was_read;

}  // namespace

#pragma GCC visibility push(default)

// Writes "file\tfunction\tline\tqualified name\n" for each frame, the innermost first, as far as there is room; -1:
// this Python's frames are not known.
extern "C" int read_stack(char* text, size_t size) {
  if (!frugal::FindPython().ok()) return -1;
  std::array<frugal::PythonFrame, frugal::kMostPythonFrames> frames;
  const size_t count = frugal::CapturePython(absl::MakeSpan(frames));
  std::string lines;
  for (size_t i = 0; i < count; ++i) {
    const frugal::CodeLine line = frugal::Describe(frames[i]);
    lines += line.file + "\t" + line.function + "\t" + std::to_string(line.line) + "\t";
    lines += frugal::QualifiedName(frames[i]) + "\n";
  }
  const size_t written = std::min(lines.size(), size - 1);
  std::memcpy(text, lines.data(), written);
  text[written] = '\0';
  return static_cast<int>(count);
}

// Returns once another thread is in hold_until_read(), and then reads; that function returns after this one has read.
extern "C" int read_while_held() {
  is_held.WaitForNotification();
  std::array<char, 1 << 12> text;
  const int count = read_stack(text.data(), text.size());
  was_read.Notify();
  return count;
}

extern "C" void hold_until_read() {
  is_held.Notify();
  was_read.WaitForNotification();
}

#pragma GCC visibility pop
