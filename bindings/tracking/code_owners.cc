#include "bindings/tracking/code_owners.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace frugal {

CodeOwners::CodeOwners() : CodeOwners("n<\nu<stdin>\nu<string>\nu<ipython-input") {}

CodeOwners::CodeOwners(absl::string_view beginnings) {
  for (const absl::string_view line : absl::StrSplit(beginnings, '\n', absl::SkipEmpty())) {
    if (!absl::StrContains("ufn", line.substr(0, 1))) continue;
    beginnings_.push_back({absl::StrCat(line.substr(1)), line.front()});
  }
  std::stable_sort(beginnings_.begin(), beginnings_.end(),
                   [](const Beginning& a, const Beginning& b) { return a.text.size() > b.text.size(); });
}

bool CodeOwners::IsUsers(absl::string_view file) const {
  const auto found = std::find_if(beginnings_.begin(), beginnings_.end(), [file](const Beginning& beginning) {
    return absl::StartsWith(file, beginning.text);
  });
  absl::string_view rest = file;
  if (found != beginnings_.end()) {
    if (found->owner == 'n') return false;
    rest.remove_prefix(found->text.size());
    if (found->owner == 'f' && absl::StrContains(rest, '/')) return false;
  }
  for (const absl::string_view folder : {"site-packages/", "dist-packages/"}) {
    if (absl::StartsWith(rest, folder) || absl::StrContains(rest, absl::StrCat("/", folder))) return false;
  }
  return true;
}

}  // namespace frugal
