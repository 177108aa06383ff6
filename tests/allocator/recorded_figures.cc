#include "tests/allocator/recorded_figures.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace frugal {
namespace {

std::string InCheckout(const std::string& path) {
  const char* const checkout = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  return checkout == nullptr ? path : absl::StrCat(checkout, "/", path);
}

std::string Text(const Figures& figures, const std::string& name) {
  const auto found = figures.find(name);
  return found == figures.end() ? "none" : absl::StrCat(found->second);
}

}  // namespace

// Reads what Save has written: a work or a figure on each line.
RecordedFigures::RecordedFigures(const std::string& path) : path_(InCheckout(path)) {
  std::ifstream file(path_);
  std::string line;
  Figures* work = nullptr;
  while (std::getline(file, line)) {
    char name[128] = {};
    long long number = 0;
    if (std::sscanf(line.c_str(), "    \"%127[^\"]\": %lld", name, &number) == 2) {
      if (work != nullptr) (*work)[name] = number;
    } else if (std::sscanf(line.c_str(), "  \"%127[^\"]\": {", name) == 1) {
      work = &works_[name];
    }
  }
}

std::vector<std::string> RecordedFigures::Differences(const std::string& work, const Figures& figures) const {
  const auto found = works_.find(work);
  const Figures& on_record = found == works_.end() ? Figures() : found->second;
  Figures all = figures;
  all.insert(on_record.begin(), on_record.end());
  std::vector<std::string> differences;
  for (const auto& [name, number] : all) {
    const std::string now = Text(figures, name);
    const std::string before = Text(on_record, name);
    if (now != before) differences.push_back(absl::StrCat(name, " ", now, ", on record ", before));
  }
  return differences;
}

bool RecordedFigures::Save() const {
  std::ofstream file(path_);
  file << "{";
  const char* between_works = "\n";
  for (const auto& [work, figures] : works_) {
    file << between_works << "  \"" << work << "\": {";
    const char* between = "\n";
    for (const auto& [name, number] : figures) {
      file << between << "    \"" << name << "\": " << number;
      between = ",\n";
    }
    file << "\n  }";
    between_works = ",\n";
  }
  file << "\n}\n";
  file.close();
  return file.good();
}

}  // namespace frugal
