// Which code is the user's own: what it is made of, and where it was loaded from, is known to Python
// (bindings/frugal_alloc/_program/users_code.py), which hands over the beginnings of file names that decide.

#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace frugal {

// Thread-safety: as const says.
class CodeOwners {
 public:
  // Until Python says more: what has a file, and what is typed in.
  CodeOwners();
  // One beginning a line, after a letter for whose a file is whose name begins so: 'u' the user's, 'f' the user's
  // unless it lies in a folder further down, 'n' not the user's. The longest that fits counts; where none does, it is
  // the user's. Lines with another letter are left out.
  explicit CodeOwners(absl::string_view beginnings);

  // Never of an installed package, wherever it may lie: a program may have added other environments to its path.
  bool IsUsers(absl::string_view file) const;

 private:
  struct Beginning {
    std::string text;
    char owner;
  };

  std::vector<Beginning> beginnings_;  // the longest first
};

}  // namespace frugal
