#include "bindings/publishing/published_verdicts.h"

#include <new>

namespace frugal {

PublishedVerdicts& PublishedVerdicts::Instance() {
  static PublishedVerdicts* const instance = new PublishedVerdicts;
  return *instance;
}

void PublishedVerdicts::BecomeForkedChild() {
  // The parent's list may have been in the midst of a change.
  new (this) PublishedVerdicts;
}

}  // namespace frugal
