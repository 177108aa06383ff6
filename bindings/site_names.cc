#include "bindings/site_names.h"

#include <cstddef>

namespace frugal {

SiteNames& SiteNames::Instance() {
  static SiteNames* const names = new SiteNames();
  return *names;
}

SiteNames::SiteNames() { static_cast<void>(Find("")); }

SiteId SiteNames::Find(absl::string_view name) {
  absl::MutexLock lock(&mutex_);
  const auto [found, is_new] = by_name_.try_emplace(name, static_cast<SiteId>(sites_.size()));
  if (is_new) sites_.push_back({found->first});
  return found->second;
}

bool SiteNames::Has(SiteId site) const {
  absl::MutexLock lock(&mutex_);
  return static_cast<size_t>(site) < sites_.size();
}

std::string SiteNames::Name(SiteId site) const {
  absl::MutexLock lock(&mutex_);
  return sites_.at(static_cast<size_t>(site)).name;
}

void SiteNames::ExpectGrowth(SiteId site) {
  absl::MutexLock lock(&mutex_);
  sites_.at(static_cast<size_t>(site)).expected_to_grow = true;
}

bool SiteNames::IsExpectedToGrow(SiteId site) const {
  absl::MutexLock lock(&mutex_);
  return sites_.at(static_cast<size_t>(site)).expected_to_grow;
}

}  // namespace frugal
