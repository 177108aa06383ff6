#include "bindings/tracking/site_table.h"

#include "absl/strings/match.h"

namespace frugal {
namespace {

bool IsCallOfModule(const CodeLine& line) {
  return line.function == "_call_impl" && absl::EndsWith(line.file, "torch/nn/modules/module.py");
}

}  // namespace

SiteTable& SiteTable::Instance() {
  static SiteTable* const table = new SiteTable();
  return *table;
}

SiteTable::SiteTable() {
  absl::MutexLock lock(&mutex_);
  sites_.emplace_back();
}

void SiteTable::BecomeForkedChild() {
  phases_.BecomeForkedChild();
  Renew(mutex_);
}

void SiteTable::SetOwners(CodeOwners owners) {
  absl::MutexLock lock(&mutex_);
  owners_ = std::move(owners);
}

uint32_t SiteTable::FindLine(const PythonFrame& frame) {
  const auto [found, is_new] = lines_by_frame_.try_emplace(KeyOf(frame), static_cast<uint32_t>(lines_.size()));
  if (is_new) {
    CodeLine line = Describe(frame);
    const bool is_users = owners_.IsUsers(line.file);
    lines_.emplace_back(std::move(line), is_users);
  }
  return found->second;
}

bool SiteTable::IsFull() {
  if (sites_.size() < kMostSites) return false;
  ++left_out_;
  return true;
}

SiteId SiteTable::Add(uint64_t key, Site site) {
  if (IsFull()) return kNoSite;
  const auto id = static_cast<SiteId>(sites_.size());
  sites_.push_back(std::move(site));
  sites_by_key_.insert_or_assign(key, id);
  return id;
}

SiteId SiteTable::FindPhaseSite(PhaseId phase) {
  if (phase == kNoPhase) return kNoSite;
  const uint64_t key = Mix(static_cast<uint64_t>(phase), 0);
  absl::MutexLock lock(&mutex_);
  if (const auto found = sites_by_key_.find(key); found != sites_by_key_.end()) return found->second;
  Site site;
  site.phase = phase;
  return Add(key, std::move(site));
}

SiteId SiteTable::FindStack(uint64_t key, PhaseId phase, absl::Span<const PythonFrame> frames) {
  absl::MutexLock lock(&mutex_);
  if (const auto found = sites_by_key_.find(key); found != sites_by_key_.end()) return found->second;
  // Before its lines are added, which would go on to fill the memory.
  if (IsFull()) return kNoSite;
  Site site;
  site.phase = phase;
  site.lines.reserve(frames.size());
  for (const PythonFrame& frame : frames) {
    site.lines.push_back(FindLine(frame));
    site.in_module = site.in_module || IsCallOfModule(lines_[site.lines.back()].first);
    if (site.user == Site::kNone && lines_[site.lines.back()].second)
      site.user = static_cast<int>(site.lines.size()) - 1;
  }
  return Add(key, std::move(site));
}

SiteId SiteTable::FindNode(uint64_t key, absl::string_view node, SiteId forward, PhaseId phase,
                           absl::Span<const PythonFrame> frames) {
  absl::MutexLock lock(&mutex_);
  if (const auto found = sites_by_key_.find(key); found != sites_by_key_.end()) return found->second;
  if (IsFull()) return kNoSite;
  Site site;
  site.phase = forward == kNoSite ? phase : sites_.at(static_cast<size_t>(forward)).phase;
  site.node.assign(node.data(), node.size());
  site.forward = forward;
  site.lines.reserve(frames.size());
  for (const PythonFrame& frame : frames) site.lines.push_back(FindLine(frame));
  return Add(key, std::move(site));
}

int64_t SiteTable::left_out() const {
  absl::MutexLock lock(&mutex_);
  return left_out_;
}

size_t SiteTable::size() const {
  absl::MutexLock lock(&mutex_);
  return sites_.size();
}

const Site& SiteTable::At(SiteId site) const {
  absl::MutexLock lock(&mutex_);
  return sites_.at(static_cast<size_t>(site));
}

const CodeLine& SiteTable::LineAt(uint32_t number) const {
  absl::MutexLock lock(&mutex_);
  return lines_.at(number).first;
}

CodeLine SiteTable::UserLine(SiteId id) const {
  absl::MutexLock lock(&mutex_);
  const Site* site = &sites_.at(static_cast<size_t>(id));
  if (site->user == Site::kNone) site = &sites_.at(static_cast<size_t>(site->forward));
  if (site->user == Site::kNone) return {};
  return lines_.at(site->lines[static_cast<size_t>(site->user)]).first;
}

}  // namespace frugal
