#include "bindings/adapter/tags.h"

#include <c10/core/SafePyObject.h>

#include <algorithm>
#include <atomic>
#include <memory>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "bindings/adapter/torch_symbol.h"
#include "bindings/tracking/python_context.h"

namespace frugal {
namespace {

// at::impl::ThreadLocalPythonObjects: what PyTorch hands from a thread to those that run its backward pass. Its library
// is not ours to link with. Source: ATen/ThreadLocalPythonObjects.h.
using Objects = std::shared_ptr<c10::SafePyObject>;
using ContainsFunction = bool (*)(const std::string& key);
using GetFunction = const Objects& (*)(const std::string& key);
using SetFunction = void (*)(const std::string& key, Objects value);

std::atomic<ContainsFunction> contains{nullptr};
std::atomic<GetFunction> get{nullptr};
std::atomic<SetFunction> set{nullptr};

template <typename Function>
void Find(const char* name, std::atomic<Function>& function) {
  function.store(reinterpret_cast<Function>(FindInTorch(name)));
}

void FindThreadLocalObjects() {
#define FRUGAL_OF_OBJECTS(function_and_key) \
  "_ZN2at4impl24ThreadLocalPythonObjects" function_and_key "ERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
  Find(FRUGAL_OF_OBJECTS("8contains"), contains);
  Find(FRUGAL_OF_OBJECTS("3get"), get);
  Find(FRUGAL_OF_OBJECTS("3set") "St10shared_ptrIN3c1012SafePyObjectEE", set);
#undef FRUGAL_OF_OBJECTS
}

const std::string& Key() {
  static const auto* const key = new std::string("frugal_alloc.tag");
  return *key;
}

struct Outer {
  Tags::Id tag;
  Tags::Id of_context;  // what the context had then: it counts again once it changes
};

// Of the calling thread: what was there before each Enter; what is handed on, in programs without that library; and
// what was handed on for the task that it ran last.
thread_local std::vector<Outer> outer;
thread_local Tags::Id without_torch = Tags::kNone;
thread_local Tags::Id followed = Tags::kNone;

void HandOn(Tags::Id tag) {
  if (set.load() == nullptr) {
    without_torch = tag;
    return;
  }
  // A number in a pointer's place, which nobody follows: the owner that it shares is nobody.
  set.load()(Key(), Objects(std::shared_ptr<void>(), reinterpret_cast<c10::SafePyObject*>(uintptr_t{tag})));
}

Tags::Id HandedOn() {
  const ContainsFunction is_there = contains.load();
  if (is_there == nullptr) return without_torch;
  if (!is_there(Key())) return Tags::kNone;
  return static_cast<Tags::Id>(reinterpret_cast<uintptr_t>(get.load()(Key()).get()));
}

}  // namespace

absl::StatusOr<Tags::Id> Tags::Of(absl::string_view name) {
  if (name.empty()) return kNone;
  absl::MutexLock lock(&mutex_);
  const auto found = std::find(names_.begin(), names_.end(), name);
  const auto number = static_cast<size_t>(found - names_.begin()) + 1;
  if (number > UINT8_MAX) {
    return absl::ResourceExhaustedError(absl::StrFormat("there are %d tags already, and can be no more", UINT8_MAX));
  }
  if (found == names_.end()) names_.emplace_back(name);
  return static_cast<Id>(number);
}

absl::StatusOr<Tags::Id> Tags::Find(absl::string_view name) const {
  absl::MutexLock lock(&mutex_);
  const auto found = std::find(names_.begin(), names_.end(), name);
  if (found != names_.end()) return static_cast<Id>(found - names_.begin() + 1);
  const std::string known = names_.empty() ? "there are none yet" : "there are " + absl::StrJoin(names_, ", ");
  return absl::NotFoundError(absl::StrFormat("nothing has ever had the tag '%s': %s", name, known));
}

std::string Tags::NameOf(Id tag) const {
  absl::MutexLock lock(&mutex_);
  return tag == kNone ? "" : names_[tag - size_t{1}];
}

void Tags::Enter(Id tag) {
  if (set.load() == nullptr) FindThreadLocalObjects();
  outer.push_back({HandedOn(), PythonContextTag()});
  HandOn(tag);
  routing_.AddExceptions(1);
}

void Tags::Leave() {
  if (outer.empty()) return;
  routing_.AddExceptions(-1);
  HandOn(outer.back().tag);
  outer.pop_back();
}

void Tags::FollowContexts(int change) {
  if (set.load() == nullptr) FindThreadLocalObjects();
  routing_.AddExceptions(change);
  static_cast<void>(Current());
}

Tags::Id Tags::Current() {
  const Id of_context = PythonContextTag();
  if (!outer.empty() && outer.back().of_context == of_context) return HandedOn();
  if (of_context != followed) {
    // A backward pass of this task's is to have it. In a thread that runs another's, what was handed on stays.
    if (HandedOn() == followed) HandOn(of_context);
    followed = of_context;
  }
  return of_context != kNone ? of_context : HandedOn();
}

}  // namespace frugal
