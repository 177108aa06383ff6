#include "tests/shadow/operation.h"

#include <algorithm>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "simulated_gpu/machine/call_kind.h"

namespace frugal::shadow {
namespace {

constexpr int64_t kMostPages = 4096;

// What is between the separators.
std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (absl::string_view part : absl::StrSplit(absl::string_view(text.data(), text.size()), separator)) {
    parts.emplace_back(part.data(), part.size());
  }
  return parts;
}

std::vector<std::string_view> Words(std::string_view line) {
  std::vector<std::string_view> words = Split(line, ' ');
  std::erase(words, "");
  return words;
}

template <typename Names>
std::optional<uint8_t> IndexOf(const Names& names, std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<uint8_t>(found - names.begin());
}

template <typename Number>
bool ParseNumber(std::string_view word, int64_t least, int64_t most, Number& number) {
  int64_t parsed = 0;
  if (!absl::SimpleAtoi(absl::string_view(word.data(), word.size()), &parsed)) return false;
  if (parsed < least || parsed > most) return false;
  number = static_cast<Number>(parsed);
  return true;
}

std::string Fill(std::string_view placeholder, const Operation& operation) {
  switch (placeholder[0]) {
    case 'B':
      return absl::StrCat("#", operation.block);
    case 'S':
      return absl::StrCat(operation.stream);
    case 'A':
    case 'V':
      return absl::StrCat(operation.amount);
    case 'C':
      return absl::StrCat(operation.second);
    case 'P':
      return absl::StrCat(operation.pool);
    case 'K':
      return std::string(sim::kCallKindNames[operation.call]);
    case 'O':
      return std::string(kOptions[operation.option]);
    default:
      return std::string(kErrors[operation.error]);
  }
}

bool Read(std::string_view placeholder, std::string_view word, Operation& operation) {
  constexpr int64_t kMost = int64_t{1} << 50;
  constexpr int64_t kMostOfOption = 1'000'000'000;
  std::optional<uint8_t> index;
  switch (placeholder[0]) {
    case 'B':
      return word.starts_with('#') && ParseNumber(word.substr(1), 0, UINT32_MAX, operation.block);
    case 'S':
      return ParseNumber(word, 1, kStreams, operation.stream);
    case 'A':
      return ParseNumber(word, 0, kMost, operation.amount);
    case 'C':
      return ParseNumber(word, 0, kMost, operation.second);
    case 'P':
      return ParseNumber(word, 1, UINT32_MAX, operation.pool);
    case 'K':
      index = IndexOf(sim::kCallKindNames, word);
      operation.call = index.value_or(0);
      return index.has_value();
    case 'O':
      index = IndexOf(kOptions, word);
      operation.option = index.value_or(0);
      return index.has_value();
    case 'V':
      return ParseNumber(word, 1, kMostOfOption, operation.amount);
    default:
      index = IndexOf(kErrors, word);
      operation.error = index.value_or(0);
      return index.has_value();
  }
}

bool IsPlaceholder(std::string_view word) { return word.size() == 1 && word[0] >= 'A' && word[0] <= 'Z'; }

std::optional<Operation> ParseOperation(std::string_view line) {
  const std::vector<std::string_view> words = Words(line);
  for (size_t kind = 0; kind < kPatterns.size(); ++kind) {
    const std::vector<std::string_view> pattern = Words(kPatterns[kind]);
    Operation operation;
    operation.kind = static_cast<OperationKind>(kind);
    bool matches = pattern.size() == words.size();
    for (size_t i = 0; matches && i < pattern.size(); ++i) {
      matches = IsPlaceholder(pattern[i]) ? Read(pattern[i], words[i], operation) : pattern[i] == words[i];
    }
    if (matches) return operation;
  }
  return std::nullopt;
}

bool ParseDevice(std::string_view line, Program& program) {
  const std::vector<std::string_view> words = Words(line);
  if (words.size() != 4 || words[0] != "device" || words[2] != "pages") return false;
  if (words[3] != "movable" && words[3] != "segments") return false;
  program.movable = words[3] == "movable";
  return ParseNumber(words[1], 1, kMostPages, program.pages);
}

}  // namespace

std::string ToText(const Operation& operation) {
  std::string text;
  for (std::string_view word : Words(kPatterns[static_cast<size_t>(operation.kind)])) {
    if (!text.empty()) text += ' ';
    text += IsPlaceholder(word) ? Fill(word, operation) : std::string(word);
  }
  return text;
}

std::string ToText(const Program& program) {
  std::string text = absl::StrFormat("device %d pages %s\n", program.pages, program.movable ? "movable" : "segments");
  for (const Operation& operation : program.operations) absl::StrAppend(&text, ToText(operation), "\n");
  return text;
}

absl::StatusOr<Program> ParseProgram(std::string_view text) {
  Program program;
  bool has_device = false;
  int number = 0;
  for (std::string_view line : Split(text, '\n')) {
    ++number;
    if (line.empty() || line == "#" || line.starts_with("# ")) continue;
    if (!has_device) {
      has_device = ParseDevice(line, program);
      if (has_device) continue;
      return absl::InvalidArgumentError(absl::StrFormat(
          "line %d: expected \"device N pages movable\" or \"... segments\", not \"%s\"", number, std::string(line)));
    }
    const std::optional<Operation> operation = ParseOperation(line);
    if (!operation.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("line %d: \"%s\" is no operation; see kPatterns", number, std::string(line)));
    }
    program.operations.push_back(*operation);
  }
  if (!has_device) return absl::InvalidArgumentError("the program is empty");
  return program;
}

}  // namespace frugal::shadow
