#include "bindings/publishing/told_verdicts.h"

#include <new>

namespace frugal {

ToldVerdicts& ToldVerdicts::Instance() {
  static ToldVerdicts* const instance = new ToldVerdicts;
  return *instance;
}

void ToldVerdicts::BecomeForkedChild() {
  // The parent's list may have been in the midst of a change.
  new (this) ToldVerdicts;
}

}  // namespace frugal
