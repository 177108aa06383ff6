// The functions of c_api.h about memory that sleeps.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bindings/adapter/torch_allocator.h"
#include "bindings/c_api/c_api.h"
#include "bindings/c_api/c_api_results.h"
#include "bindings/publishing/json_text.h"
#include "bindings/tracking/python_context.h"
#include "bindings/tracking/site_table.h"

namespace frugal {
namespace {

using TagIds = std::vector<Tags::Id>;

absl::StatusOr<TagIds> FindTags(const Tags& tags, const char* names) {
  TagIds found;
  if (names == nullptr) return found;
  for (const absl::string_view name : absl::StrSplit(names, '\n', absl::SkipEmpty())) {
    const absl::StatusOr<Tags::Id> tag = tags.Find(name);
    if (!tag.ok()) return tag.status();
    found.push_back(*tag);
  }
  return found;
}

absl::StatusOr<std::optional<TagIds>> FindOnly(const Tags& tags, const char* names) {
  if (names == nullptr) return std::nullopt;
  absl::StatusOr<TagIds> found = FindTags(tags, names);
  if (!found.ok()) return found.status();
  return std::optional(*std::move(found));
}

absl::StatusOr<SleepRequest> MakeRequest(const Tags& tags, const char* only, const char* keep, const char* drop,
                                         absl::string_view host, bool poison) {
  const absl::StatusOr<std::optional<TagIds>> only_tags = FindOnly(tags, only);
  if (!only_tags.ok()) return only_tags.status();
  const absl::StatusOr<TagIds> kept = FindTags(tags, keep);
  if (!kept.ok()) return kept.status();
  const absl::StatusOr<TagIds> dropped = FindTags(tags, drop);
  if (!dropped.ok()) return dropped.status();
  if (host != "pinned" && host != "pageable") {
    return absl::InvalidArgumentError(absl::StrCat("host is '", host, "', but can be 'pinned' or 'pageable'"));
  }
  return SleepRequest{{*only_tags, *kept},
                      std::nullopt,
                      *dropped,
                      host == "pinned" ? HostCopies::Kind::kPinned : HostCopies::Kind::kPageable,
                      poison};
}

const char* NameOf(std::optional<Sleep::Why> why) {
  if (!why.has_value()) return "no Python object holds it";
  switch (*why) {
    case Sleep::Why::kKeptInPlace:
      return "kept in place";
    case Sleep::Why::kBesideAwake:
      return "shares a page with memory that stays awake";
    case Sleep::Why::kInSegment:
      return "memory of cudaMalloc";
  }
  return "";
}

std::string LineOf(SiteId site) {
  if (site == kUnsampled) return "";
  const CodeLine line = SiteTable::Instance().UserLine(site);
  return line.file.empty() ? "" : absl::StrCat(line.file, ":", line.line);
}

std::string StayedJson(std::string_view tag, Bytes size, std::string_view why, std::string_view site) {
  return JsonObject().Text("tag", tag).Integer("bytes", size.count()).Text("why", why).Text("site", site).Done();
}

std::string ToJson(const Tags& tags, const SleptGpu& slept) {
  SleptBytes all;
  const auto tag_json = [&](const std::pair<const Tags::Id, SleptBytes>& of_tag) {
    const SleptBytes& bytes = of_tag.second;
    all.slept += bytes.slept;
    all.copied += bytes.copied;
    all.dropped += bytes.dropped;
    return JsonObject()
        .Text("tag", tags.NameOf(of_tag.first))
        .Integer("slept_bytes", bytes.slept.count())
        .Integer("copied_bytes", bytes.copied.count())
        .Integer("dropped_bytes", bytes.dropped.count())
        .Done();
  };
  const std::string by_tag = JsonList(slept.by_tag, tag_json);
  std::string stayed = JsonElements(slept.stayed, [&](const std::pair<const SleptGpu::Stayed, Bytes>& part) {
    return StayedJson(tags.NameOf(part.first.tag), part.second, NameOf(part.first.why), LineOf(part.first.site));
  });
  if (slept.native > Bytes(0)) {
    absl::StrAppend(&stayed, stayed.empty() ? "" : ",", StayedJson("", slept.native, "PyTorch's own memory", ""));
  }
  return JsonObject()
      .Integer("gpu", slept.gpu)
      .Integer("slept_bytes", all.slept.count())
      .Integer("copied_bytes", all.copied.count())
      .Integer("dropped_bytes", all.dropped.count())
      .Integer("given_back_bytes", slept.given_back.count())
      .Integer("host_bytes", slept.host.count())
      .Value("tags", by_tag)
      .Value("stayed", absl::StrCat("[", stayed, "]"))
      .Done();
}

std::string ToJson(const WokenGpu& woken) {
  return JsonObject()
      .Integer("gpu", woken.gpu)
      .Integer("woken_bytes", woken.woken.count())
      .Integer("copied_bytes", woken.copied.count())
      .Done();
}

std::string AsleepJson(const Tags& tags, GpuMemory& gpu, const std::vector<Sleep::AsleepBlock>& asleep) {
  struct OfTag {
    Bytes size;
    int64_t blocks = 0;
  };
  std::map<Tags::Id, OfTag> by_tag;
  for (const Sleep::AsleepBlock& sleeper : asleep) {
    OfTag& of_tag = by_tag[sleeper.block.tag];
    ++of_tag.blocks;
    for (const AddressRange& range : sleeper.lacking) of_tag.size += range.size;
  }
  return JsonObject()
      .Integer("gpu", gpu.ordinal())
      .Integer("host_bytes", gpu.host_copies().host().count())
      .Value("tags", JsonList(by_tag,
                              [&](const std::pair<const Tags::Id, OfTag>& of_tag) {
                                return JsonObject()
                                    .Text("tag", tags.NameOf(of_tag.first))
                                    .Integer("asleep_bytes", of_tag.second.size.count())
                                    .Integer("blocks", of_tag.second.blocks)
                                    .Done();
                              }))
      .Value("pools", JsonList(gpu.allocator().sleep().UnreadablePools(),
                               [](PoolId pool) { return absl::StrCat("[", pool.first, ",", pool.second, "]"); }))
      .Done();
}

Bytes TaggedBytes(GpuMemory& gpu, const TagIds& tags) {
  Bytes size;
  for (const SegmentView& segment : gpu.allocator().inspect().Snapshot()) {
    for (const BlockView& block : segment.blocks) {
      if (block.state == BlockView::State::kAllocated && TagChoice::Has(tags, block.tag)) size += block.size;
    }
  }
  return size;
}

// Of a c10::StorageImpl, without its checks: it may sleep.
c10::DataPtr& DataPtrOf(const void* storage) {
  return const_cast<c10::StorageImpl*>(static_cast<const c10::StorageImpl*>(storage))->_mutable_data_ptr_no_checks();
}

std::string OfGpus(const std::string& list) { return JsonObject().Value("gpus", list).Done(); }

// What call(TorchAllocator&), which makes JSON or fails, makes; null, after its error has become the last one.
template <typename Call>
const char* LendOrFail(Call&& call) {
  TorchAllocator* const allocator = TorchAllocator::Instance();
  if (allocator == nullptr) {
    Failed(kNotEnabled);
    return nullptr;
  }
  const char* lent = nullptr;
  static_cast<void>(Guarded([&]() -> int64_t {
    absl::StatusOr<std::string> json = call(*allocator);
    if (!json.ok()) return Failed(json.status().message());
    lent = LendJson(*std::move(json));
    return 0;
  }));
  return lent;
}

}  // namespace
}  // namespace frugal

int frugal_tag(const char* name) {
  return static_cast<int>(frugal::WithAllocator([name](frugal::TorchAllocator& allocator) {
    const absl::StatusOr<frugal::Tags::Id> tag = allocator.tags().Of(name);
    if (!tag.ok()) return frugal::Failed(tag.status().message());
    allocator.tags().Enter(*tag);
    return 0;
  }));
}

int frugal_tag_number(const char* name) {
  return static_cast<int>(frugal::WithAllocator([name](frugal::TorchAllocator& allocator) -> int64_t {
    const absl::StatusOr<frugal::Tags::Id> tag = allocator.tags().Of(name);
    return tag.ok() ? int64_t{*tag} : frugal::Failed(tag.status().message());
  }));
}

int frugal_find_context(const void* variable, int64_t hash, const void* context, const void* entered, int tag) {
  return frugal::FindPythonContext(variable, hash, context, {entered, static_cast<uint8_t>(tag)}) ? 1 : 0;
}

int frugal_follow_contexts(int change) {
  return static_cast<int>(frugal::WithAllocator([change](frugal::TorchAllocator& allocator) {
    allocator.tags().FollowContexts(change);
    return 0;
  }));
}

int frugal_untag(void) {
  return static_cast<int>(frugal::WithAllocator([](frugal::TorchAllocator& allocator) {
    allocator.tags().Leave();
    return 0;
  }));
}

int frugal_retag(const void* storage, const char* name) {
  return static_cast<int>(frugal::WithAllocator([=](frugal::TorchAllocator& allocator) -> int64_t {
    const absl::StatusOr<frugal::Tags::Id> tag = allocator.tags().Of(name);
    if (!tag.ok()) return frugal::Failed(tag.status().message());
    const void* const block = storage == nullptr ? nullptr : frugal::DataPtrOf(storage).get_context();
    frugal::GpuMemory* const gpu = allocator.gpus().OwnerOf(block);
    if (gpu == nullptr) return 0;
    const absl::Status status = gpu->allocator().sleep().SetTag(frugal::Address(block), *tag);
    return status.ok() ? 1 : frugal::ToResult(status);
  }));
}

const char* frugal_sleep(const char* tags, const char* keep, const char* drop, const char* host, int poison) {
  return frugal_sleep_held(tags, keep, drop, host, poison, nullptr, -1, nullptr);
}

const char* frugal_sleep_held(const char* tags, const char* keep, const char* drop, const char* host, int poison,
                              const void* const* storages, int64_t count, const char* no_pools) {
  return frugal::LendOrFail([&](frugal::TorchAllocator& allocator) -> absl::StatusOr<std::string> {
    const frugal::Tags& all = allocator.tags();
    absl::StatusOr<frugal::SleepRequest> request =
        frugal::MakeRequest(all, tags, keep, drop, host == nullptr ? "pinned" : host, poison != 0);
    if (!request.ok()) return request.status();
    if (count >= 0) request->held.emplace();
    for (int64_t i = 0; i < count; ++i) request->held->emplace_back(frugal::DataPtrOf(storages[i]).get());
    if (no_pools != nullptr) request->no_pools = no_pools;
    const absl::StatusOr<std::vector<frugal::SleptGpu>> slept = allocator.sleeper().FallAsleep(*request);
    if (!slept.ok()) return slept.status();
    return frugal::OfGpus(
        frugal::JsonList(*slept, [&](const frugal::SleptGpu& gpu) { return frugal::ToJson(all, gpu); }));
  });
}

const char* frugal_wake(const char* tags) {
  return frugal::LendOrFail([&](frugal::TorchAllocator& allocator) -> absl::StatusOr<std::string> {
    const auto only = frugal::FindOnly(allocator.tags(), tags);
    if (!only.ok()) return only.status();
    const absl::StatusOr<std::vector<frugal::WokenGpu>> woken = allocator.sleeper().Wake({*only, {}});
    if (!woken.ok()) return woken.status();
    return frugal::OfGpus(frugal::JsonList(*woken, [](const frugal::WokenGpu& gpu) { return frugal::ToJson(gpu); }));
  });
}

const char* frugal_asleep(void) {
  return frugal::LendOrFail([](frugal::TorchAllocator& allocator) -> absl::StatusOr<std::string> {
    std::vector<std::string> gpus;
    allocator.gpus().ForEach([&](frugal::GpuMemory& gpu) {
      gpus.push_back(frugal::AsleepJson(allocator.tags(), gpu, allocator.sleeper().AsleepOn(gpu)));
    });
    return frugal::OfGpus(frugal::JsonList(gpus, [](const std::string& gpu) { return gpu; }));
  });
}

int frugal_mark_asleep(void* storage, const char* message) {
  return static_cast<int>(frugal::WithAllocator([=](frugal::TorchAllocator& allocator) {
    return allocator.sleeper().Mark(*static_cast<c10::StorageImpl*>(storage), message) ? 1 : 0;
  }));
}

const char* frugal_asleep_block(void* storage) {
  return frugal::LendOrFail([storage](frugal::TorchAllocator& allocator) -> absl::StatusOr<std::string> {
    const std::optional<frugal::BlockView> block = allocator.sleeper().AsleepAt(frugal::DataPtrOf(storage).get());
    if (!block.has_value()) return "null";
    return frugal::JsonObject()
        .Integer("address", static_cast<int64_t>(block->address.value()))
        .Text("tag", allocator.tags().NameOf(block->tag))
        .Integer("site", block->site == frugal::kUnsampled ? 0 : static_cast<int64_t>(block->site))
        .Done();
  });
}

int frugal_copy_asleep(void* storage, int64_t offset, int64_t size, void* to) {
  return static_cast<int>(frugal::WithAllocator([=](frugal::TorchAllocator& allocator) -> int64_t {
    const void* const data = frugal::DataPtrOf(storage).get();
    if (data == nullptr || size == 0) return 0;
    const absl::StatusOr<bool> is_asleep =
        allocator.sleeper().Read(static_cast<const char*>(data) + offset, frugal::Bytes(size), static_cast<char*>(to));
    return is_asleep.ok() ? int64_t{*is_asleep} : frugal::Failed(is_asleep.status().message());
  }));
}

int64_t frugal_tagged_bytes(const char* tags) {
  return frugal::WithAllocator([=](frugal::TorchAllocator& allocator) -> int64_t {
    const absl::StatusOr<frugal::TagIds> found = frugal::FindTags(allocator.tags(), tags);
    if (!found.ok()) return frugal::Failed(found.status().message());
    frugal::Bytes size;
    allocator.gpus().ForEach([&](frugal::GpuMemory& gpu) { size += frugal::TaggedBytes(gpu, *found); });
    return size.count();
  });
}
