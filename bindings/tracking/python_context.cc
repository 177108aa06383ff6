#include "bindings/tracking/python_context.h"

#include <dlfcn.h>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstring>

#include "bindings/tracking/python_layout.h"

namespace frugal {
namespace {

// As far as a thread's state is looked through for its context, of which no version has it behind.
constexpr size_t kThreadStateLooked = 512;

struct Variable {
  void* (*this_thread)() = nullptr;  // PyGILState_GetThisThreadState
  size_t place = 0;                  // of the context in a thread's state
  const void* object = nullptr;
  uint32_t hash = 0;
};

// REQUIRES: context_is_known.
Variable variable;
std::atomic<bool> context_is_known{false};

template <typename T>
T Read(const void* object, size_t offset) {
  T value;
  std::memcpy(&value, static_cast<const char*>(object) + offset, sizeof(value));
  return value;
}

const void* ReadObject(const void* object, size_t offset) { return Read<const void*>(object, offset); }

// The key at this place of an array of keys and values is the variable's, whose value is returned; null: it is not.
const void* ValueAt(const void* node, size_t index) {
  const size_t key = kMapPairs + 2 * index * sizeof(void*);
  return ReadObject(node, key) == variable.object ? ReadObject(node, key + sizeof(void*)) : nullptr;
}

const void* ValueAmong(const void* collision) {
  for (size_t i = 0; 2 * i < Read<size_t>(collision, kVariableSize); ++i) {
    if (const void* const value = ValueAt(collision, i); value != nullptr) return value;
  }
  return nullptr;
}

// Source: Python/hamt.c.
const void* ValueIn(const void* context) {
  const void* node = ReadObject(ReadObject(context, kContextMap), kMapRoot);
  for (unsigned shift = 0; node != nullptr; shift += 5) {
    const char* const kind = Read<const char*>(ReadObject(node, kObjectType), kTypeName);
    if (std::strcmp(kind, "hamt_collision_node") == 0) return ValueAmong(node);
    if (shift >= 32) return nullptr;
    const uint32_t place = variable.hash >> shift & 31;
    if (std::strcmp(kind, "hamt_array_node") == 0) {
      node = ReadObject(node, kMapArray + place * sizeof(void*));
      continue;
    }
    const auto bits = Read<uint32_t>(node, kMapBits);
    if ((bits >> place & 1) == 0) return nullptr;
    const auto index = static_cast<size_t>(std::popcount(bits & ((uint32_t{1} << place) - 1)));
    const size_t key = kMapPairs + 2 * index * sizeof(void*);
    if (ReadObject(node, key) != nullptr) return ValueAt(node, index);
    node = ReadObject(node, key + sizeof(void*));
  }
  return nullptr;
}

uint8_t TagOf(const void* entered) {
  for (;;) {
    const auto tag = Read<uint8_t>(ReadObject(entered, kSecondSlot), kBytes);
    const void* const outer = ReadObject(entered, kFirstSlot);
    if (tag != 0 || outer == entered) return tag;
    entered = outer;
  }
}

}  // namespace

bool FindPythonContext(const void* object, int64_t hash, const void* context, EnteredTag entered) {
  const auto this_thread = reinterpret_cast<void* (*)()>(dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState"));
  const void* const thread = this_thread == nullptr ? nullptr : this_thread();
  if (thread == nullptr) return false;
  const auto folded = static_cast<uint32_t>(hash) ^ static_cast<uint32_t>(static_cast<uint64_t>(hash) >> 32);
  size_t place = 0;
  while (place < kThreadStateLooked && ReadObject(thread, place) != context) place += sizeof(void*);
  if (place == kThreadStateLooked) return false;
  variable = {this_thread, place, object, folded == UINT32_MAX ? UINT32_MAX - 1 : folded};
  if (ValueIn(context) != entered.object || TagOf(entered.object) != entered.tag) return false;
  context_is_known.store(true, std::memory_order_release);
  return true;
}

void ForgetPythonContext() { context_is_known.store(false, std::memory_order_release); }

uint8_t PythonContextTag() {
  if (!context_is_known.load(std::memory_order_acquire)) return 0;
  const void* const thread = variable.this_thread();
  const void* const context = thread == nullptr ? nullptr : ReadObject(thread, variable.place);
  const void* const entered = context == nullptr ? nullptr : ValueIn(context);
  return entered == nullptr ? 0 : TagOf(entered);
}

}  // namespace frugal
