// The functions of c_api.h about the journal.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "bindings/adapter/journal.h"
#include "bindings/c_api/c_api.h"
#include "bindings/c_api/c_api_results.h"
#include "bindings/publishing/json_text.h"

namespace frugal {
namespace {

int NumberOf(Journal::Started started) {
  switch (started) {
    case Journal::Started::kNow:
      return 1;
    case Journal::Started::kBefore:
      return 0;
    case Journal::Started::kAwaitsCuda:
      return 2;
  }
  return Failed("the journal is in no known state");
}

}  // namespace
}  // namespace frugal

int frugal_journal_start(void) {
  return static_cast<int>(frugal::Guarded([] { return frugal::NumberOf(frugal::Journal::Instance().Start()); }));
}

void frugal_journal_mark(const char* text) { frugal::Journal::Instance().Mark(text); }

void frugal_journal_label(uint64_t address, const char* text) { frugal::Journal::Instance().Label(address, 0, text); }

int frugal_journal_observe_simulation(void) { return static_cast<int>(frugal::Journal::ObserveSimulation()); }

int64_t frugal_journal_module_calls(void) { return frugal::Journal::Instance().module_calls(); }

int64_t frugal_journal_read(int64_t from, void* entries, int64_t capacity) {
  const size_t most = static_cast<size_t>(std::max<int64_t>(capacity, 0));
  const absl::Span<frugal::JournalEntry> read(static_cast<frugal::JournalEntry*>(entries), most);
  return static_cast<int64_t>(frugal::Journal::Instance().Read(from, read));
}

int frugal_journal_write(const char* path) { return frugal::ToResult(frugal::Journal::Instance().WriteTo(path)); }

const char* frugal_journal_texts(void) {
  const auto write = [](const std::string& text) { return frugal::JsonText(text); };
  return frugal::LendJson(frugal::JsonList(frugal::Journal::Instance().Texts(), write));
}
