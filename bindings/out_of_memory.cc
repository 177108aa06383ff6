#include "bindings/out_of_memory.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace frugal {
namespace {

thread_local int silences = 0;

std::string Size(Bytes size) {
  return c10::CachingAllocator::format_size(static_cast<uint64_t>(std::max<int64_t>(size.count(), 0)));
}

std::string HeldByUs(Bytes reserved, Bytes allocated, Bytes awaiting) {
  return absl::StrCat("frugal_alloc holds ", Size(reserved), ": ", Size(allocated), " in tensors, ", Size(awaiting),
                      " freed but still in use by a stream, ", Size(reserved - allocated - awaiting), " free.");
}

}  // namespace

OutOfMemoryObservers::Silence::Silence() { ++silences; }
OutOfMemoryObservers::Silence::~Silence() { --silences; }

void OutOfMemoryObservers::Attach(caching::CUDAAllocator& native, caching::OutOfMemoryObserver observer) {
  native.attachOutOfMemoryObserver([observer](int64_t device, size_t requested, size_t total, size_t free) {
    if (silences == 0) observer(device, requested, total, free);
  });
  absl::MutexLock lock(&mutex_);
  observers_.push_back(std::move(observer));
}

void OutOfMemoryObservers::Notify(int64_t device, size_t requested, size_t total, size_t free) {
  std::vector<caching::OutOfMemoryObserver> observers;
  {
    absl::MutexLock lock(&mutex_);
    observers = observers_;
  }
  for (const caching::OutOfMemoryObserver& observer : observers) observer(device, requested, total, free);
}

std::string HeldByUs(const Statistics& statistics) {
  const Bytes allocated(statistics.allocated_bytes[SizeGroup::kAll].current);
  const Bytes active(statistics.active_bytes()[SizeGroup::kAll].current);
  return HeldByUs(Bytes(statistics.reserved_bytes[SizeGroup::kAll].current), allocated, active - allocated);
}

std::string OutOfMemoryMessage(c10::DeviceIndex device, size_t requested, const OutOfMemoryReport& report,
                               absl::string_view limit_name, int64_t native_reserved) {
  std::string message =
      absl::StrCat("CUDA out of memory. Tried to allocate ", c10::CachingAllocator::format_size(requested), ". GPU ",
                   static_cast<int>(device), " has a total capacity of ", Size(report.device_total), " of which ",
                   Size(report.device_free), " is free. ");
  if (report.limit < report.device_total) {
    absl::StrAppend(&message, "This process may hold ", Size(report.limit), " of it (", limit_name, "). ");
  }
  absl::StrAppend(&message, HeldByUs(report.reserved, report.allocated, report.awaiting));
  if (native_reserved > 0) {
    absl::StrAppend(&message, " PyTorch's native allocator holds ", Size(Bytes(native_reserved)),
                    " (CUDA graphs, memory pools, tensors older than frugal_alloc.enable()).");
  }
  const Bytes foreign = report.device_total - report.device_free - report.reserved - Bytes(native_reserved);
  if (foreign > Bytes(0)) {
    absl::StrAppend(&message, " The other ", Size(foreign),
                    " in use belong to the CUDA context, to other libraries or to other processes.");
  }
  return message;
}

void ThrowOutOfMemory(GpuMemory& gpu, size_t requested, cudaStream_t stream, History& history,
                      OutOfMemoryObservers& observers) {
  const OutOfMemoryReport report = gpu.allocator().LastOutOfMemory();
  const DeviceStats both = gpu.GetStats();
  const int64_t native_reserved = both.reserved_bytes[0].current - report.reserved.count();
  const auto free = static_cast<size_t>(report.device_free.count());
  const auto total = static_cast<size_t>(std::min(report.limit, report.device_total).count());
  if (history.listening()) history.Record(TraceEntry::OOM, gpu.ordinal(), free, requested, stream, nullptr);
  c10::reportOutOfMemoryToProfiler(
      static_cast<int64_t>(requested), static_cast<size_t>(both.allocated_bytes[0].current),
      static_cast<size_t>(both.reserved_bytes[0].current), c10::Device(c10::DeviceType::CUDA, gpu.ordinal()));
  observers.Notify(gpu.ordinal(), requested, total, free);
  C10_THROW_ERROR(OutOfMemoryError, OutOfMemoryMessage(gpu.ordinal(), requested, report, gpu.LimitName(),
                                                       std::max<int64_t>(native_reserved, 0)));
}

}  // namespace frugal
