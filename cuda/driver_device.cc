#include "cuda/driver_device.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "allocator/port/format_bytes.h"
#include "cuda/driver_scope.h"
#include "cuda/second_try.h"

namespace frugal {
namespace {

CUdeviceptr ToDriver(Address address) { return address.value(); }
CUstream ToDriver(Stream stream) {
  CUstream const handle = reinterpret_cast<CUstream>(stream.id);
  return handle == CU_STREAM_PER_THREAD ? CU_STREAM_LEGACY : handle;
}
CUevent ToDriver(Event event) { return reinterpret_cast<CUevent>(event.id); }
size_t ToDriver(Bytes size) { return static_cast<size_t>(size.count()); }

CUmemAccessDesc ReadWriteFrom(int ordinal) {
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = ordinal;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return access;
}

}  // namespace

// Runs one driver function, `name` as in DriverApi, and notes how long it took as a call of kind `call`; a CUresult.
#define FRUGAL_TIMED(call, name, ...)                                 \
  [&]() -> CUresult {                                                 \
    const DriverTimes::Stopwatch stopwatch(times_, DriverCall::call); \
    return api_.name(__VA_ARGS__);                                    \
  }()

// The same of this device, in a DriverScope; a Status.
#define FRUGAL_DRIVER_CALL(call, name, ...)                                                \
  [&]() -> absl::Status {                                                                  \
    DriverScope scope(api_, context_);                                                     \
    if (!scope.status().ok()) return scope.status();                                       \
    return api_.ToStatus(FRUGAL_TIMED(call, name __VA_OPT__(, ) __VA_ARGS__), "cu" #name); \
  }()

absl::StatusOr<std::unique_ptr<DriverDevice>> DriverDevice::Open(int ordinal) {
  absl::StatusOr<const DriverApi*> api = DriverApi::Get();
  if (!api.ok()) return api.status();
  const DriverApi& driver = **api;
  CUdevice device;
  if (CUresult result = driver.DeviceGet(&device, ordinal); result != CUDA_SUCCESS) {
    return absl::FailedPreconditionError(
        absl::StrCat("no GPU ", ordinal, ": ", driver.ToStatus(result, "cuDeviceGet").message()));
  }
  CUcontext context;
  absl::Status status = MakeUpForOneFailure(
      [&] { return driver.ToStatus(driver.DevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain"); });
  if (!status.ok()) return status;
  std::unique_ptr<DriverDevice> opened(new DriverDevice(driver, ordinal, device, context));
  if (status = MakeUpForOneFailure([&] { return opened->Inspect(); }); !status.ok()) return status;
  if (opened->virtual_memory_) opened->TryVirtualMemory();
  if (opened->unified_ != nullptr) {
    // Where it fails, the limit counts.
    static_cast<void>(MakeUpForOneFailure([&] { return opened->LearnWhatGroupCounts(); }));
  }
  // A driver's first calls take what no later ones do.
  opened->times_.Forget();
  return opened;
}

DriverDevice::DriverDevice(const DriverApi& api, int ordinal, CUdevice device, CUcontext context)
    : api_(api), ordinal_(ordinal), device_(device), context_(context), access_({ReadWriteFrom(ordinal)}) {}

DriverDevice::~DriverDevice() {
  host_copies_.reset();
  {
    DriverScope scope(api_, context_);
    absl::MutexLock lock(&events_mutex_);
    for (CUevent event : idle_events_) api_.EventDestroy(event);
  }
  api_.DevicePrimaryCtxRelease(device_);
}

std::string DriverDevice::Name() const {
  std::array<char, 128> name = {};
  if (api_.DeviceGetName == nullptr) return "";
  const CUresult result = api_.DeviceGetName(name.data(), static_cast<int>(name.size() - 1), device_);
  return result == CUDA_SUCCESS ? name.data() : "";
}

std::string DriverDevice::Uuid() const {
  CUuuid uuid = {};
  if (api_.DeviceGetUuid == nullptr || api_.DeviceGetUuid(&uuid, device_) != CUDA_SUCCESS) return "";
  const std::string digits = absl::BytesToHexString(absl::string_view(uuid.bytes, sizeof(uuid.bytes)));
  const absl::string_view all = digits;
  return absl::StrCat("GPU-", all.substr(0, 8), "-", all.substr(8, 4), "-", all.substr(12, 4), "-", all.substr(16, 4),
                      "-", all.substr(20));
}

absl::Status DriverDevice::Inspect() {
  const auto attribute = [this](CUdevice_attribute which) {
    // A driver that does not know the attribute does not have what it asks about.
    int value = 0;
    return api_.DeviceGetAttribute(&value, which, device_) == CUDA_SUCCESS && value != 0;
  };
  if (unified_ == nullptr && attribute(CU_DEVICE_ATTRIBUTE_INTEGRATED)) unified_ = std::make_unique<UnifiedMemory>();
  if (!api_.has_virtual_memory || !attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)) {
    return absl::OkStatus();
  }
  // As PyTorch's own mapped segments have them, so that IPC, NCCL and RDMA find what they expect.
  allocation_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  allocation_.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  allocation_.location.id = ordinal_;
  if (attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)) {
    allocation_.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  }
  if (attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED)) {
    allocation_.allocFlags.gpuDirectRDMACapable = 1;
  }
  size_t granularity = 0;
  DriverScope scope(api_, context_);
  if (!scope.status().ok()) return scope.status();
  absl::Status status =
      api_.ToStatus(api_.MemGetAllocationGranularity(&granularity, &allocation_, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                    "cuMemGetAllocationGranularity");
  if (!status.ok()) return status;
  virtual_memory_ = granularity != 0 && ToDriver(kPageSize) % granularity == 0;
  return absl::OkStatus();
}

absl::Status DriverDevice::AllowPeer(int peer) {
  if (!virtual_memory_ || peer == ordinal_) return absl::OkStatus();
  absl::MutexLock lock(&access_mutex_);
  for (const CUmemAccessDesc& access : access_) {
    if (access.location.id == peer) return absl::OkStatus();
  }
  const CUmemAccessDesc access = ReadWriteFrom(peer);
  for (const auto& [reserved, ranges] : accessible_) {
    for (const auto& range : ranges.ranges()) {
      const Address start = range.first;
      const Bytes size = range.second - start;
      absl::Status status = MakeUpForOneFailure(
          [&] { return FRUGAL_DRIVER_CALL(set_access, MemSetAccess, ToDriver(start), ToDriver(size), &access, 1); });
      // Ranges before this one stay open to the peer, which does no harm; a later call starts again.
      if (!status.ok()) return status;
    }
  }
  access_.push_back(access);
  return absl::OkStatus();
}

absl::StatusOr<MemoryInfo> DriverDevice::GetMemoryInfo() {
  size_t free = 0;
  size_t total = 0;
  absl::Status status = FRUGAL_DRIVER_CALL(memory_info, MemGetInfo, &free, &total);
  if (!status.ok()) return status;
  const MemoryInfo info{Bytes(static_cast<int64_t>(free)), Bytes(static_cast<int64_t>(total))};
  if (unified_ == nullptr) return info;
  const absl::StatusOr<UnifiedMemory::State> host = unified_->Look();
  // The driver says less than there is, which harms less than more.
  if (!host.ok()) return info;
  return MemoryInfo{std::min(host->Room(), info.total), info.total};
}

absl::Status DriverDevice::CheckHost(Bytes size) {
  // In pages. 256 MiB: that takes the driver longer than a look at the host.
  constexpr int64_t kMost = 128;
  const int64_t wanted = PagesCovering(size).count();
  if (unified_ == nullptr || pages_of_look_.fetch_sub(wanted, std::memory_order_relaxed) >= wanted) {
    return absl::OkStatus();
  }
  const absl::StatusOr<UnifiedMemory::State> host = unified_->Look();
  const int64_t pages = host.ok() ? host->Room().count() / kPageSize.count() : kMost;
  pages_of_look_.store(std::clamp<int64_t>(pages - wanted, 0, kMost - 1), std::memory_order_relaxed);
  if (pages >= wanted) return absl::OkStatus();
  return absl::ResourceExhaustedError("the GPU's memory is the host's, which has none to spare");
}

absl::StatusOr<Address> DriverDevice::Reserve(Bytes size) {
  CUdeviceptr range = 0;
  absl::Status status =
      FRUGAL_DRIVER_CALL(reserve, MemAddressReserve, &range, ToDriver(size), ToDriver(kPageSize), 0, 0);
  // Addresses have run out, of a process under `ulimit -v` say: no memory given back helps, and there may be plenty.
  if (absl::IsResourceExhausted(status)) return absl::InternalError(status.message());
  if (!status.ok()) return status;
  absl::MutexLock lock(&access_mutex_);
  accessible_.try_emplace(Address(range));
  return Address(range);
}

absl::Status DriverDevice::Unreserve(Address range, Bytes size) {
  absl::MutexLock lock(&access_mutex_);
  absl::Status status = FRUGAL_DRIVER_CALL(unreserve, MemAddressFree, ToDriver(range), ToDriver(size));
  if (status.ok()) accessible_.erase(range);
  return status;
}

absl::StatusOr<PhysicalHandle> DriverDevice::Create(Bytes size) {
  if (absl::Status status = CheckHost(size); !status.ok()) return status;
  CUmemGenericAllocationHandle handle = 0;
  absl::Status status = FRUGAL_DRIVER_CALL(create, MemCreate, &handle, ToDriver(size), &allocation_, 0);
  if (!status.ok()) return status;
  return PhysicalHandle{handle};
}

absl::Status DriverDevice::Release(PhysicalHandle handle) { return FRUGAL_DRIVER_CALL(release, MemRelease, handle.id); }

absl::Status DriverDevice::ExplainMapping(absl::Status failure) {
  if (!absl::IsResourceExhausted(failure)) return failure;
  // A table of 4 KiB serves 512 pages: this much free is room enough for any.
  constexpr Bytes kEnoughForTables = MiB(64);
  const absl::StatusOr<MemoryInfo> memory = GetMemoryInfo();
  if (!memory.ok() || memory->free < kEnoughForTables) return failure;
  return absl::AbortedError(absl::StrCat(failure.message(), ", although ", FormatBytes(memory->free),
                                         " of the GPU are free: the driver has perhaps no ",
                                         "place left for mapped memory, of which all processes of a machine share "
                                         "524,288, one for every handle and GPU that ",
                                         "reaches them; run fewer processes here, or give each a memory_limit"));
}

absl::Status DriverDevice::Map(Address start, Bytes size, PhysicalHandle handle) {
  absl::Status status = FRUGAL_DRIVER_CALL(map, MemMap, ToDriver(start), ToDriver(size), 0, handle.id, 0);
  return status.ok() ? status : ExplainMapping(std::move(status));
}

absl::Status DriverDevice::SetAccess(Address start, Bytes size) {
  absl::MutexLock lock(&access_mutex_);
  const CUmemAccessDesc* const access = access_.data();
  const size_t count = access_.size();
  absl::Status status = FRUGAL_DRIVER_CALL(set_access, MemSetAccess, ToDriver(start), ToDriver(size), access, count);
  if (!status.ok()) return ExplainMapping(std::move(status));
  AccessibleAround(start).Add(start, size);
  return absl::OkStatus();
}

absl::Status DriverDevice::Unmap(Address start, Bytes size) {
  absl::MutexLock lock(&access_mutex_);
  absl::Status status = FRUGAL_DRIVER_CALL(unmap, MemUnmap, ToDriver(start), ToDriver(size));
  if (status.ok()) AccessibleAround(start).Remove(start, size);
  return status;
}

absl::StatusOr<Address> DriverDevice::Malloc(Bytes size) {
  CUdeviceptr segment = 0;
  absl::Status status = FRUGAL_DRIVER_CALL(malloc, MemAlloc, &segment, ToDriver(size));
  if (!status.ok()) return status;
  return Address(segment);
}

absl::Status DriverDevice::Free(Address segment) { return FRUGAL_DRIVER_CALL(free, MemFree, ToDriver(segment)); }

absl::Status DriverDevice::CheckNotCapturing(Stream stream) const {
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  absl::Status status = api_.ToStatus(api_.StreamIsCapturing(ToDriver(stream), &capture), "cuStreamIsCapturing");
  if (!status.ok()) return absl::UnknownError(status.message());
  if (capture == CU_STREAM_CAPTURE_STATUS_NONE) return absl::OkStatus();
  return absl::UnavailableError("the stream is being captured into a graph");
}

absl::StatusOr<CUevent> DriverDevice::TakeEvent(CUcontext context) {
  {
    absl::MutexLock lock(&events_mutex_);
    if (context == context_ && !idle_events_.empty()) {
      CUevent event = idle_events_.back();
      idle_events_.pop_back();
      return event;
    }
  }
  CUevent event = nullptr;
  absl::Status status =
      api_.ToStatus(FRUGAL_TIMED(event_create, EventCreate, &event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  if (!status.ok()) return status;
  if (context != context_) {
    absl::MutexLock lock(&events_mutex_);
    events_of_other_contexts_.insert(event);
  }
  return event;
}

absl::StatusOr<Event> DriverDevice::Record(Stream stream) {
  DriverScope scope(api_, ContextOf(stream));
  if (!scope.status().ok()) return scope.status();
  if (absl::Status status = lives_.Check(stream); !status.ok()) return status;
  if (absl::Status status = CheckNotCapturing(stream); !status.ok()) return status;
  absl::StatusOr<CUevent> event = TakeEvent(ContextOf(stream));
  if (!event.ok()) return event.status();
  const Event taken{reinterpret_cast<uint64_t>(*event)};
  absl::Status status =
      api_.ToStatus(FRUGAL_TIMED(event_record, EventRecord, *event, ToDriver(stream)), "cuEventRecord");
  // Another thread may have begun to capture the stream meanwhile. To ask an event of a capture would end that.
  if (status.ok()) status = CheckNotCapturing(stream);
  if (status.ok()) return taken;
  Recycle(taken);
  return status;
}

absl::StatusOr<bool> DriverDevice::HasPassed(Event event) {
  DriverScope scope(api_, context_);
  if (!scope.status().ok()) return scope.status();
  const CUresult result = FRUGAL_TIMED(event_query, EventQuery, ToDriver(event));
  if (result == CUDA_ERROR_NOT_READY) return false;
  if (result == CUDA_SUCCESS) return true;
  return api_.ToStatus(result, "cuEventQuery");
}

absl::Status DriverDevice::StreamWait(Stream stream, Event event) {
  DriverScope scope(api_, ContextOf(stream));
  if (!scope.status().ok()) return scope.status();
  // A captured stream would wait inside the graph for an event outside it, which ends the capture with an error.
  if (absl::Status status = CheckNotCapturing(stream); !status.ok()) return status;
  return api_.ToStatus(FRUGAL_TIMED(stream_wait, StreamWaitEvent, ToDriver(stream), ToDriver(event), 0),
                       "cuStreamWaitEvent");
}

absl::Status DriverDevice::Synchronize(Event event) {
  return FRUGAL_DRIVER_CALL(sync, EventSynchronize, ToDriver(event));
}

// Of the primary context, which covers its green contexts (cuda.h: "If the current context is the primary context,
// green contexts that have been created will also be synchronized"). Not covered is work in contexts that a program
// made with cuCtxCreate, of which PyTorch makes none.
absl::Status DriverDevice::SynchronizeAll() { return FRUGAL_DRIVER_CALL(sync, CtxSynchronize); }

void DriverDevice::Recycle(Event event) {
  {
    absl::MutexLock lock(&events_mutex_);
    if (events_of_other_contexts_.erase(ToDriver(event)) == 0) {
      idle_events_.push_back(ToDriver(event));
      return;
    }
  }
  // The thread may have no context, and any will do.
  const DriverScope scope(api_, context_);
  api_.EventDestroy(ToDriver(event));
}

absl::StatusOr<std::vector<CapturePoint>> DriverDevice::MarkInCapture(Stream stream) {
  if (!capture_order_.is_wanted()) return absl::UnavailableError("nobody wants to know");
  DriverScope scope(api_, ContextOf(stream));
  if (!scope.status().ok()) return scope.status();
  if (absl::Status status = lives_.Check(stream); !status.ok()) return status;
  return capture_order_.Mark(ToDriver(stream));
}

std::vector<CapturePoint> DriverDevice::BehindInCapture(Stream waiter, const std::vector<CapturePoint>& points) {
  DriverScope scope(api_, ContextOf(waiter));
  if (!scope.status().ok() || !lives_.Check(waiter).ok()) return {};
  return capture_order_.Behind(ToDriver(waiter), points);
}

#undef FRUGAL_DRIVER_CALL
#undef FRUGAL_TIMED

}  // namespace frugal
