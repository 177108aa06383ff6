#include "bindings/settings/pytorch_settings.h"

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/base/const_init.h"
#include "absl/base/thread_annotations.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"

namespace frugal {
namespace {

struct Unfollowed {
  absl::string_view key;
  absl::string_view unless;  // the value that asks for nothing; "" if there is none
  absl::string_view reason;
};

// Of torch 2.9 to 2.15.
constexpr std::array<Unfollowed, 8> kUnfollowed = {{
    {"expandable_segments_reserve", "", "address ranges have the size that they need"},
    {"expandable_segments_reserve_by_class", "", "address ranges have the size that they need"},
    {"garbage_collection_threshold", "", "free memory is used again wherever it lies; idle_release gives it back"},
    {"large_segment_size_mb", "", "memory is taken in handles, larger ones where much of the GPU is left"},
    {"max_non_split_rounding_mb", "", "blocks of every size may be split"},
    {"max_split_size_mb", "", "blocks of every size may be split, and their parts joined again"},
    {"release_lock_on_cudamalloc", "False", "memory is taken in handles, not with cudaMalloc"},
    {"release_lock_on_hipmalloc", "False", "memory is taken in handles, not with cudaMalloc"},
}};

constexpr absl::string_view kExpandableSegments = "expandable_segments";

ABSL_CONST_INIT absl::Mutex named_mutex(absl::kConstInit);
ABSL_CONST_INIT std::bitset<kUnfollowed.size()> named ABSL_GUARDED_BY(named_mutex);

// The value that `text` gives a key, without what is in brackets; "key:value,key:[a:b,c:d]".
struct Entry {
  absl::string_view key;
  absl::string_view value;
};

std::vector<Entry> Entries(absl::string_view text) {
  std::vector<Entry> entries;
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && (text[i] != ',' || depth > 0)) {
      depth += text[i] == '[' ? 1 : 0;
      depth -= text[i] == ']' ? 1 : 0;
      continue;
    }
    const absl::string_view entry = text.substr(start, i - start);
    const size_t colon = std::min(entry.find(':'), entry.size());
    const absl::string_view value = colon < entry.size() ? entry.substr(colon + 1) : absl::string_view();
    entries.push_back({absl::StripAsciiWhitespace(entry.substr(0, colon)), absl::StripAsciiWhitespace(value)});
    start = i + 1;
  }
  return entries;
}

}  // namespace

std::string PyTorchSettingsOfEnvironment() {
  // The later is read only if the earlier is not set.
  for (const char* name : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}) {
    if (const char* text = std::getenv(name); text != nullptr) return text;
  }
  return "";
}

std::string UnfollowedSettings(absl::string_view text) {
  std::vector<std::string> names;
  const std::vector<Entry> entries = Entries(text);
  absl::MutexLock lock(&named_mutex);
  for (size_t i = 0; i < kUnfollowed.size(); ++i) {
    for (const Entry& entry : entries) {
      if (named[i] || entry.key != kUnfollowed[i].key || entry.value == kUnfollowed[i].unless) continue;
      named[i] = true;
      names.push_back(absl::StrCat(kUnfollowed[i].key, " (", kUnfollowed[i].reason, ")"));
    }
  }
  if (names.empty()) return "";
  return absl::StrCat("frugal_alloc does not follow ", absl::StrJoin(names, ", "));
}

std::optional<bool> ReadExpandableSegments(absl::string_view text) {
  std::optional<bool> value;
  for (const Entry& entry : Entries(text)) {
    if (entry.key == kExpandableSegments && (entry.value == "True" || entry.value == "False")) {
      value = entry.value == "True";  // the last counts
    }
  }
  return value;
}

std::string WithExpandableSegments(absl::string_view text, bool value) {
  const absl::string_view word = value ? "True" : "False";
  std::string result;
  size_t copied = 0;
  for (const Entry& entry : Entries(text)) {
    if (entry.key != kExpandableSegments || entry.value.empty()) continue;
    const auto start = static_cast<size_t>(entry.value.data() - text.data());
    absl::StrAppend(&result, text.substr(copied, start - copied), word);
    copied = start + entry.value.size();
  }
  absl::StrAppend(&result, text.substr(copied));
  if (copied > 0) return result;
  const absl::string_view others = absl::StripAsciiWhitespace(text);
  const bool is_open = others.empty() || others.back() == ',';
  return absl::StrCat(others, is_open ? "" : ",", kExpandableSegments, ":", word);
}

bool IsCachingTurnedOff() { return std::getenv("PYTORCH_NO_CUDA_MEMORY_CACHING") != nullptr; }

}  // namespace frugal
