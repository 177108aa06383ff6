#include "cuda/pointer_access.h"

#include <cuda.h>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "cuda/driver_api.h"

namespace frugal {
namespace {

absl::StatusOr<bool> AskInContext(const DriverApi& api, CUcontext context, Address address) {
  absl::Status status = api.ToStatus(api.CtxPushCurrent(context), "cuCtxPushCurrent");
  if (!status.ok()) return status;
  // One that this call has pushed can be popped.
  const absl::Cleanup pop = [&api] {
    CUcontext popped;
    api.CtxPopCurrent(&popped);
  };
  // The manual does not say how much the driver writes: 4 bytes by cuda.h's enumeration, 8 as of memory's other flags.
  unsigned long long flags = 0;
  status = api.ToStatus(api.PointerGetAttribute(&flags, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, address.value()),
                        "cuPointerGetAttribute");
  if (!status.ok()) return status;
  return flags == CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
}

}  // namespace

absl::StatusOr<bool> MayReach(int ordinal, Address address) {
  absl::StatusOr<const DriverApi*> api = DriverApi::Get();
  if (!api.ok()) return api.status();
  const DriverApi& driver = **api;
  CUdevice device;
  absl::Status status = driver.ToStatus(driver.DeviceGet(&device, ordinal), "cuDeviceGet");
  if (!status.ok()) return status;
  CUcontext context;
  status = driver.ToStatus(driver.DevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  if (!status.ok()) return status;
  absl::StatusOr<bool> may_reach = AskInContext(driver, context, address);
  status = driver.ToStatus(driver.DevicePrimaryCtxRelease(device), "cuDevicePrimaryCtxRelease");
  if (!status.ok()) return status;
  return may_reach;
}

}  // namespace frugal
