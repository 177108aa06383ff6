// What the simulated CUDA libraries export does what CUDA's functions do.

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <unistd.h>

#include <vector>

#include "gtest/gtest.h"
#include "simulated_gpu/tests/exports_fixture.h"

namespace frugal::sim {
namespace {

TEST_F(ExportsTest, DriverAndRuntimeShareOneMachine) {
  void* pointer = nullptr;
  ASSERT_EQ(RUNTIME(cudaMalloc)(&pointer, 3 * kPage), cudaSuccess);
  size_t free = 0;
  size_t total = 0;
  ASSERT_EQ(VERSIONED(cuMemGetInfo)(&free, &total), CUDA_SUCCESS);
  EXPECT_EQ(total, kMemory);
  EXPECT_EQ(free, kMemory - kContext - 3 * kPage);
  EXPECT_EQ(DRIVER(frugal_sim_memory_used)(0), 3 * kPage);
  ASSERT_EQ(RUNTIME(cudaFree)(pointer), cudaSuccess);
  EXPECT_EQ(DRIVER(frugal_sim_memory_used)(0), 0u);
}

TEST_F(ExportsTest, ManagedMemoryIsTheGpusWhereverItIsPrefetchedTo) {
  void* pointer = nullptr;
  ASSERT_EQ(RUNTIME(cudaMallocManaged)(&pointer, 3 * kPage, cudaMemAttachGlobal), cudaSuccess);
  const cudaMemLocation host = {cudaMemLocationTypeHost, {}};
  EXPECT_EQ(RUNTIME(cudaMemPrefetchAsync)(pointer, 3 * kPage, host, 0, nullptr), cudaSuccess);
  EXPECT_EQ(DRIVER(frugal_sim_memory_managed)(0), 3 * kPage);
  EXPECT_EQ(DRIVER(frugal_sim_memory_managed)(1), 0u);
  ASSERT_EQ(RUNTIME(cudaFree)(pointer), cudaSuccess);
  EXPECT_EQ(DRIVER(frugal_sim_memory_managed)(0), 0u);
  ASSERT_EQ(RUNTIME(cudaMalloc)(&pointer, 3 * kPage), cudaSuccess);
  EXPECT_EQ(RUNTIME(cudaMemPrefetchAsync)(pointer, 3 * kPage, host, 0, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(DRIVER(frugal_sim_memory_managed)(0), 0u);
}

TEST_F(ExportsTest, DeviceSetInTheRuntimeIsCurrentInTheDriver) {
  ASSERT_EQ(RUNTIME(cudaSetDevice)(1), cudaSuccess);
  CUdevice device = -1;
  ASSERT_EQ(DRIVER(cuCtxGetDevice)(&device), CUDA_SUCCESS);
  EXPECT_EQ(device, 1);
  EXPECT_EQ(RUNTIME(cudaSetDevice)(2), cudaErrorInvalidDevice);
}

TEST_F(ExportsTest, PropertiesDescribeTheGpu) {
  cudaDeviceProp properties;
  ASSERT_EQ(RUNTIME(cudaGetDeviceProperties)(&properties, 1), cudaSuccess);
  EXPECT_STREQ(properties.name, "Simulated GPU");
  EXPECT_EQ(properties.totalGlobalMem, kMemory);
  EXPECT_EQ(properties.major, 9);
  EXPECT_EQ(properties.pciBusID, 2);
  EXPECT_EQ(RUNTIME(cudaGetDeviceProperties)(&properties, 2), cudaErrorInvalidDevice);
}

TEST_F(ExportsTest, LastErrorIsKeptUntilItIsTaken) {
  void* pointer = nullptr;
  EXPECT_EQ(RUNTIME(cudaMalloc)(&pointer, 2 * kMemory), cudaErrorMemoryAllocation);
  EXPECT_EQ(RUNTIME(cudaMalloc)(&pointer, SIZE_MAX), cudaErrorMemoryAllocation);
  EXPECT_EQ(RUNTIME(cudaPeekAtLastError)(), cudaErrorMemoryAllocation);
  EXPECT_EQ(RUNTIME(cudaGetLastError)(), cudaErrorMemoryAllocation);
  EXPECT_EQ(RUNTIME(cudaGetLastError)(), cudaSuccess);
  EXPECT_STREQ(RUNTIME(cudaGetErrorString)(cudaErrorMemoryAllocation), "out of memory");
  EXPECT_STREQ(RUNTIME(cudaGetErrorName)(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
}

TEST_F(ExportsTest, PinnedAndPageableMemoryAreToldApart) {
  void* pinned = nullptr;
  ASSERT_EQ(RUNTIME(cudaHostAlloc)(&pinned, 100, 0), cudaSuccess);
  int pageable = 0;
  cudaPointerAttributes attributes;
  ASSERT_EQ(RUNTIME(cudaPointerGetAttributes)(&attributes, static_cast<char*>(pinned) + 99), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  ASSERT_EQ(RUNTIME(cudaPointerGetAttributes)(&attributes, &pageable), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  ASSERT_EQ(RUNTIME(cudaHostRegister)(&pageable, sizeof(pageable), 0), cudaSuccess);
  EXPECT_EQ(RUNTIME(cudaHostRegister)(&pageable, sizeof(pageable), 0), cudaErrorHostMemoryAlreadyRegistered);
  ASSERT_EQ(RUNTIME(cudaHostUnregister)(&pageable), cudaSuccess);
  EXPECT_EQ(RUNTIME(cudaHostUnregister)(&pageable), cudaErrorHostMemoryNotRegistered);
  EXPECT_EQ(RUNTIME(cudaFreeHost)(pinned), cudaSuccess);
}

TEST_F(ExportsTest, KernelTakesItsTimeOnItsStream) {
  cudaStream_t stream = NewStream();
  const int kernel = 0;
  ASSERT_EQ(RUNTIME(cudaLaunchKernel)(&kernel, 1, 1, nullptr, 0, stream), cudaSuccess);
  EXPECT_EQ(RUNTIME(cudaStreamQuery)(stream), cudaErrorNotReady);
  EXPECT_EQ(RUNTIME(cudaStreamSynchronize)(stream), cudaSuccess);
  EXPECT_EQ(RUNTIME(cudaStreamQuery)(stream), cudaSuccess);
  EXPECT_EQ(Calls("launch"), 1u);
  EXPECT_EQ(Calls("sync"), 1u);
  EXPECT_EQ(RUNTIME(cudaStreamDestroy)(stream), cudaSuccess);
  EXPECT_EQ(RUNTIME(cudaStreamDestroy)(stream), cudaErrorInvalidResourceHandle);
}

TEST_F(ExportsTest, FillKernelOfPyTorchFills) {
  auto* register_function =
      reinterpret_cast<void (*)(void**, const char*, char*, const char*, int, void*, void*, void*, void*, int*)>(
          dlsym(Runtime(), "__cudaRegisterFunction"));
  ASSERT_NE(register_function, nullptr);
  const char fill = 0;
  register_function(nullptr, &fill, nullptr,
                    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIsEESt5arrayIPcLm1EEEEviT0_T1_",
                    -1, nullptr, nullptr, nullptr, nullptr, nullptr);
  // The functor as an argument of another kernel does not make that one a fill.
  const char other = 0;
  register_function(
      nullptr, &other, nullptr,
      "_ZN2at6native29vectorized_elementwise_kernelILi4EZNS0_22gpu_kernel_impl_nocastINS0_11FillFunctorIsE"
      "EEEvRNS_18TensorIteratorBaseERKT_EUliE_EEviT1_",
      -1, nullptr, nullptr, nullptr, nullptr, nullptr);
  int16_t* device = nullptr;
  ASSERT_EQ(RUNTIME(cudaMalloc)(reinterpret_cast<void**>(&device), kPage), cudaSuccess);
  int count = 5;
  int16_t value = 7;
  void* arguments[] = {&count, &value, &device};
  ASSERT_EQ(RUNTIME(cudaLaunchKernel)(&other, 1, 1, arguments, 0, nullptr), cudaSuccess);
  EXPECT_EQ(device[0], 0);
  ASSERT_EQ(RUNTIME(cudaLaunchKernel)(&fill, 1, 1, arguments, 0, nullptr), cudaSuccess);
  EXPECT_EQ(std::vector<int16_t>(device, device + 6), (std::vector<int16_t>{7, 7, 7, 7, 7, 0}));
  ASSERT_EQ(RUNTIME(cudaFree)(device), cudaSuccess);
}

TEST_F(ExportsTest, MallocIsForbiddenInACaptureUnlessTheThreadIsRelaxed) {
  cudaStream_t stream = NewStream();
  ASSERT_EQ(RUNTIME(cudaStreamBeginCapture)(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  ASSERT_EQ(RUNTIME(cudaThreadExchangeStreamCaptureMode)(&mode), cudaSuccess);
  EXPECT_EQ(mode, cudaStreamCaptureModeGlobal);
  void* pointer = nullptr;
  EXPECT_EQ(RUNTIME(cudaMalloc)(&pointer, kPage), cudaSuccess);
  EXPECT_EQ(RUNTIME(cudaFree)(pointer), cudaSuccess);
  ASSERT_EQ(RUNTIME(cudaThreadExchangeStreamCaptureMode)(&mode), cudaSuccess);
  EXPECT_EQ(RUNTIME(cudaMalloc)(&pointer, kPage), cudaErrorStreamCaptureUnsupported);
  cudaStreamCaptureStatus status;
  ASSERT_EQ(RUNTIME(cudaStreamIsCapturing)(stream, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusInvalidated);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(RUNTIME(cudaStreamEndCapture)(stream, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(graph, nullptr);
}

TEST_F(ExportsTest, LaunchedGraphDoesItsFillsUnlessTheThreadSaysNo) {
  cudaStream_t stream = NewStream();
  char* device = nullptr;
  ASSERT_EQ(RUNTIME(cudaMalloc)(reinterpret_cast<void**>(&device), kPage), cudaSuccess);
  ASSERT_EQ(RUNTIME(cudaStreamBeginCapture)(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  ASSERT_EQ(RUNTIME(cudaMemsetAsync)(device, 5, 1, stream), cudaSuccess);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(RUNTIME(cudaStreamEndCapture)(stream, &graph), cudaSuccess);
  EXPECT_EQ(*device, 0);
  size_t count = 0;
  ASSERT_EQ(RUNTIME(cudaGraphGetNodes)(graph, nullptr, &count), cudaSuccess);
  EXPECT_EQ(count, 1u);
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(RUNTIME(cudaGraphInstantiateWithFlags)(&executable, graph, 0), cudaSuccess);
  ASSERT_EQ(RUNTIME(cudaGraphDestroy)(graph), cudaSuccess);
  DRIVER(frugal_sim_set_graph_execution)(0);
  ASSERT_EQ(RUNTIME(cudaGraphLaunch)(executable, stream), cudaSuccess);
  EXPECT_EQ(*device, 0);
  DRIVER(frugal_sim_set_graph_execution)(1);
  ASSERT_EQ(RUNTIME(cudaGraphLaunch)(executable, stream), cudaSuccess);
  EXPECT_EQ(*device, 5);
  ASSERT_EQ(RUNTIME(cudaGraphExecDestroy)(executable), cudaSuccess);
  EXPECT_EQ(RUNTIME(cudaGraphLaunch)(executable, stream), cudaErrorInvalidValue);
  ASSERT_EQ(RUNTIME(cudaFree)(device), cudaSuccess);
}

TEST_F(ExportsTest, VirtualMemoryCountsAndCosts) {
  CUdeviceptr range = 0;
  CUmemGenericAllocationHandle handle = 0;
  const CUmemAllocationProp properties = OnGpu(1);
  CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  ASSERT_EQ(DRIVER(cuMemAddressReserve)(&range, kPage, 0, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(DRIVER(cuMemCreate)(&handle, kPage, &properties, 0), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuMemMap)(range, kPage, 512, handle, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(DRIVER(cuMemMap)(range, kPage, 0, handle, 0), CUDA_SUCCESS);
  ASSERT_EQ(DRIVER(cuMemSetAccess)(range, kPage, &access, 1), CUDA_SUCCESS);
  *reinterpret_cast<int*>(range) = 1;
  EXPECT_EQ(DRIVER(frugal_sim_memory_used)(1), kPage);
  EXPECT_EQ(DRIVER(frugal_sim_memory_peak)(1), kPage);
  cudaPointerAttributes attributes;
  ASSERT_EQ(RUNTIME(cudaPointerGetAttributes)(&attributes, reinterpret_cast<void*>(range)), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  EXPECT_EQ(attributes.device, 1);
  ASSERT_EQ(DRIVER(cuMemUnmap)(range, kPage), CUDA_SUCCESS);
  ASSERT_EQ(DRIVER(cuMemRelease)(handle), CUDA_SUCCESS);
  ASSERT_EQ(DRIVER(cuMemAddressFree)(range, kPage), CUDA_SUCCESS);
  for (const char* kind : {"reserve", "create", "map", "set_access", "unmap", "release", "unreserve"}) {
    EXPECT_EQ(Calls(kind), 1u) << kind;
  }
  EXPECT_EQ(Calls("nothing"), UINT64_MAX);
  // reserve 5, create 25 + 2 x 2, map 2, set_access 37, unmap 30, release 23, unreserve 5.
  EXPECT_EQ(DRIVER(frugal_sim_driver_ns)(), 131'000u);
}

TEST_F(ExportsTest, HandleOfSeveralPagesIsMappedFoundSharedAndUnmappedWhole) {
  constexpr size_t kSize = kPage * 4;
  CUdeviceptr range = 0;
  CUmemGenericAllocationHandle handle = 0;
  const CUmemAllocationProp properties = OnGpu(1);
  const CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  ASSERT_EQ(DRIVER(cuMemAddressReserve)(&range, kSize * 2, 0, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuMemCreate)(&handle, kSize + kPage / 2, &properties, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(DRIVER(cuMemCreate)(&handle, kSize, &properties, 0), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuMemMap)(range, kSize * 2, 0, handle, 0), CUDA_ERROR_INVALID_VALUE) << "more than there is of it";
  ASSERT_EQ(DRIVER(cuMemMap)(range, kSize, 0, handle, 0), CUDA_SUCCESS);
  // Another process would see it so, as one descriptor whatever its size.
  CUmemGenericAllocationHandle found = 0;
  ASSERT_EQ(DRIVER(cuMemRetainAllocationHandle)(&found, reinterpret_cast<void*>(range + kPage * 3)), CUDA_SUCCESS);
  EXPECT_EQ(found, handle);
  int descriptor = -1;
  ASSERT_EQ(DRIVER(cuMemExportToShareableHandle)(&descriptor, found, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_SUCCESS);
  CUmemGenericAllocationHandle imported = 0;
  void* const shared = reinterpret_cast<void*>(static_cast<uintptr_t>(descriptor));
  ASSERT_EQ(DRIVER(cuMemImportFromShareableHandle)(&imported, shared, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
            CUDA_SUCCESS);
  close(descriptor);
  ASSERT_EQ(DRIVER(cuMemMap)(range + kSize, kSize, 0, imported, 0), CUDA_SUCCESS);
  ASSERT_EQ(DRIVER(cuMemSetAccess)(range, kSize * 2, &access, 1), CUDA_SUCCESS);
  for (size_t page = 0; page < 4; ++page) *reinterpret_cast<size_t*>(range + kPage * page) = page + 1;
  for (size_t page = 0; page < 4; ++page) EXPECT_EQ(*reinterpret_cast<size_t*>(range + kSize + kPage * page), page + 1);
  EXPECT_EQ(DRIVER(frugal_sim_memory_used)(1), kSize);
  EXPECT_EQ(DRIVER(cuMemUnmap)(range, kPage), CUDA_ERROR_INVALID_VALUE) << "a part of it";
  ASSERT_EQ(DRIVER(cuMemUnmap)(range, kSize * 2), CUDA_SUCCESS);
  for (const auto each : {handle, found, imported}) ASSERT_EQ(DRIVER(cuMemRelease)(each), CUDA_SUCCESS);
  ASSERT_EQ(DRIVER(cuMemAddressFree)(range, kSize * 2), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(frugal_sim_memory_used)(1), 0u);
}

TEST_F(ExportsTest, CallsOfTheDriverAreToldFromThoseOfTheRuntime) {
  cudaEvent_t event = nullptr;
  cudaStream_t stream = NewStream();
  ASSERT_EQ(RUNTIME(cudaEventCreateWithFlags)(&event, cudaEventDisableTiming), cudaSuccess);
  EXPECT_NE(DRIVER(frugal_sim_set_faults)("nonsense"), 0);
  ASSERT_EQ(DRIVER(frugal_sim_set_faults)("driver.event_record@2=unknown,driver.memory_info@1=late_unknown"), 0);
  const auto record_in_driver = [&] { return DRIVER(cuEventRecord)(event, stream); };
  EXPECT_EQ(record_in_driver(), CUDA_SUCCESS);
  EXPECT_EQ(RUNTIME(cudaEventRecord)(event, stream), cudaSuccess);
  EXPECT_EQ(record_in_driver(), CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(Calls("event_record"), 3u);
  EXPECT_EQ(Calls("driver.event_record"), 2u);
  EXPECT_EQ(Calls("driver.nothing"), UINT64_MAX);
  size_t free = 0;
  size_t total = 0;
  ASSERT_EQ(VERSIONED(cuMemGetInfo)(&free, &total), CUDA_SUCCESS);
  EXPECT_EQ(RUNTIME(cudaEventQuery)(event), cudaSuccess) << "the late failure is the driver's";
  EXPECT_EQ(DRIVER(cuEventQuery)(event), CUDA_ERROR_UNKNOWN);
  ASSERT_EQ(RUNTIME(cudaEventDestroy)(event), cudaSuccess);
}

TEST_F(ExportsTest, ContextThatIsRefusedChangesNothingOfTheThread) {
  ASSERT_EQ(RUNTIME(cudaSetDevice)(0), cudaSuccess);
  CUcontext second = nullptr;
  ASSERT_EQ(DRIVER(cuDevicePrimaryCtxRetain)(&second, 1), CUDA_SUCCESS);
  ASSERT_EQ(DRIVER(frugal_sim_set_faults)("context@1=unknown,context@3=invalid_value"), 0);
  EXPECT_EQ(VERSIONED(cuCtxPushCurrent)(second), CUDA_ERROR_UNKNOWN);
  CUcontext current = nullptr;
  ASSERT_EQ(DRIVER(cuCtxGetCurrent)(&current), CUDA_SUCCESS);
  EXPECT_NE(current, second);
  EXPECT_EQ(DRIVER(cuCtxGetCurrent)(&current), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Calls("driver.context"), 4u);
}

TEST_F(ExportsTest, PointerSaysWhatTheCurrentGpuMayDoWithIt) {
  void* segment = nullptr;
  ASSERT_EQ(RUNTIME(cudaMalloc)(&segment, kPage), cudaSuccess);
  const auto pointer = reinterpret_cast<CUdeviceptr>(segment);
  const auto access = [&](int gpu) {
    EXPECT_EQ(RUNTIME(cudaSetDevice)(gpu), cudaSuccess);
    unsigned flags = ~0u;
    EXPECT_EQ(DRIVER(cuPointerGetAttribute)(&flags, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, pointer), CUDA_SUCCESS);
    return flags;
  };
  EXPECT_EQ(access(0), CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
  EXPECT_EQ(access(1), CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE);
  ASSERT_EQ(RUNTIME(cudaDeviceEnablePeerAccess)(0, 0), cudaSuccess);
  EXPECT_EQ(access(1), CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
  CUcontext peer = nullptr;
  ASSERT_EQ(DRIVER(cuDevicePrimaryCtxRetain)(&peer, 0), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuCtxEnablePeerAccess)(peer, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  EXPECT_EQ(DRIVER(cuCtxDisablePeerAccess)(peer), CUDA_SUCCESS);
  EXPECT_EQ(access(1), CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE);
  EXPECT_EQ(DRIVER(cuCtxDisablePeerAccess)(peer), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  ASSERT_EQ(RUNTIME(cudaSetDevice)(0), cudaSuccess);
  EXPECT_EQ(DRIVER(cuCtxEnablePeerAccess)(peer, 0), CUDA_ERROR_INVALID_CONTEXT) << "itself";
  ASSERT_EQ(RUNTIME(cudaFree)(segment), cudaSuccess);
}

TEST_F(ExportsTest, PointerThatIsNotCudasIsNothingToAttributesAndAnErrorToAttribute) {
  int local = 0;
  const auto pointer = reinterpret_cast<CUdeviceptr>(&local);
  unsigned type = 1;
  int device = 0;
  unsigned access = 1;
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                      CU_POINTER_ATTRIBUTE_ACCESS_FLAGS};
  void* data[] = {&type, &device, &access};
  EXPECT_EQ(DRIVER(cuPointerGetAttribute)(&access, attributes[2], pointer), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(DRIVER(cuPointerGetAttributes)(3, attributes, data, pointer), CUDA_SUCCESS);
  EXPECT_EQ(type, 0u);
  EXPECT_EQ(device, -2);
  EXPECT_EQ(access, 0u);
  void* segment = nullptr;
  ASSERT_EQ(RUNTIME(cudaMalloc)(&segment, kPage), cudaSuccess);
  ASSERT_EQ(DRIVER(cuPointerGetAttributes)(3, attributes, data, reinterpret_cast<CUdeviceptr>(segment)), CUDA_SUCCESS);
  EXPECT_EQ(type, static_cast<unsigned>(CU_MEMORYTYPE_DEVICE));
  EXPECT_EQ(device, 0);
  EXPECT_EQ(access, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
  ASSERT_EQ(RUNTIME(cudaFree)(segment), cudaSuccess);
}

TEST_F(ExportsTest, EntryPointsAreThoseOfTheDriver) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result;
  ASSERT_EQ(RUNTIME(cudaGetDriverEntryPointByVersion)("cuMemGetInfo", &function, 12040, 0, &result), cudaSuccess);
  EXPECT_EQ(result, cudaDriverEntryPointSuccess);
  EXPECT_EQ(function, dlsym(Driver(), "cuMemGetInfo_v2"));
  ASSERT_EQ(RUNTIME(cudaGetDriverEntryPointByVersion)("cuNoSuchFunction", &function, 12040, 0, &result), cudaSuccess);
  EXPECT_EQ(result, cudaDriverEntryPointSymbolNotFound);
  CUdriverProcAddressQueryResult found;
  ASSERT_EQ(VERSIONED(cuGetProcAddress)("cuMemCreate", &function, 13000, 0, &found), CUDA_SUCCESS);
  EXPECT_EQ(function, dlsym(Driver(), "cuMemCreate"));
}

}  // namespace
}  // namespace frugal::sim
