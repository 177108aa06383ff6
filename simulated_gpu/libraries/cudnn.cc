// The stand-in for cuDNN, general part: handle, versions, descriptors, and the routines that are one kernel each.
// See stand_in.h; graphs of operations are in cudnn_graph.cc, recurrent networks in cudnn_rnn.cc.

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "simulated_gpu/libraries/cudnn_objects.h"

namespace frugal::sim {
namespace {

// In cuDNN's own notation, whose digits for the minor version became two with cuDNN 9: PyTorch refuses a cuDNN older
// than the one it was built with, within a major version.
constexpr int kMinor = kMajor < 9 ? 9 : 99;
constexpr size_t kVersion = kMajor * (kMajor < 9 ? 1000 : 10000) + kMinor * 100;

// A descriptor that is filled in and never read here.
struct Opaque {};

}  // namespace

size_t ElementBytes(int data_type) {
  // By cudnnDataType_t: FLOAT, DOUBLE, HALF, INT8, INT32, four of 8 bits, BFLOAT16, INT64, eight of 8 bits, UINT32,
  // COMPLEX_FP32 and COMPLEX_FP64.
  constexpr size_t kBytes[] = {4, 8, 2, 1, 4, 1, 1, 1, 1, 2, 8, 1, 1, 1, 1, 1, 1, 1, 1, 4, 8, 16};
  return data_type >= 0 && data_type < static_cast<int>(std::size(kBytes)) ? kBytes[data_type] : 1;
}

OBJECT(Handle, cudnnCreate, cudnnDestroy)
FIELD(Stream, stream, cudnnSetStream, cudnnGetStream)

FRUGAL_STAND_IN size_t cudnnGetVersion() { return kVersion; }

// No version of the CUDA runtime is claimed: the stand-in serves 12 and 13 alike.
FRUGAL_STAND_IN size_t cudnnGetCudartVersion() { return 0; }
FRUGAL_STAND_IN size_t cudnnGetMaxDeviceVersion() { return 9999; }

FRUGAL_STAND_IN int cudnnGetProperty(int property, int* value) {
  return kLibrary.GiveProperty(property, kMajor, kMinor, value);
}
FRUGAL_STAND_IN const char* cudnnGetErrorString(int status) { return kLibrary.NameOf(status); }

FRUGAL_STAND_IN void cudnnGetLastErrorString(char* message, size_t capacity) {
  if (message != nullptr && capacity > 0) message[0] = '\0';
}

#define DESCRIPTOR(name, Object) OBJECT(Object, cudnnCreate##name, cudnnDestroy##name)
DESCRIPTOR(TensorDescriptor, TensorDescriptor)
DESCRIPTOR(FilterDescriptor, TensorDescriptor)
DESCRIPTOR(ActivationDescriptor, Opaque)
DESCRIPTOR(CTCLossDescriptor, Opaque)
DESCRIPTOR(ConvolutionDescriptor, Opaque)
DESCRIPTOR(DropoutDescriptor, Opaque)
DESCRIPTOR(LRNDescriptor, Opaque)
DESCRIPTOR(OpTensorDescriptor, Opaque)
DESCRIPTOR(PoolingDescriptor, Opaque)
DESCRIPTOR(ReduceTensorDescriptor, Opaque)
DESCRIPTOR(SpatialTransformerDescriptor, Opaque)
DESCRIPTOR(TensorTransformDescriptor, Opaque)
#undef DESCRIPTOR

FRUGAL_STAND_IN int cudnnSetTensorNdDescriptor(TensorDescriptor* descriptor, int data_type, int dimensions,
                                               const int* sizes, const int* strides) {
  if (descriptor == nullptr || sizes == nullptr || strides == nullptr || dimensions < 0) return kBadParameter;
  *descriptor = {data_type, {sizes, sizes + dimensions}, {strides, strides + dimensions}};
  return Library::kSuccess;
}

FRUGAL_STAND_IN int cudnnGetTensorNdDescriptor(const TensorDescriptor* descriptor, int requested, int* data_type,
                                               int* dimensions, int* sizes, int* strides) {
  if (descriptor == nullptr || requested < 0) return kBadParameter;
  const size_t copied = std::min<size_t>(requested, descriptor->sizes.size());
  *data_type = descriptor->data_type;
  *dimensions = static_cast<int>(descriptor->sizes.size());
  std::copy_n(descriptor->sizes.begin(), copied, sizes);
  std::copy_n(descriptor->strides.begin(), copied, strides);
  return Library::kSuccess;
}

FRUGAL_STAND_IN int cudnnSetFilterNdDescriptor(TensorDescriptor* descriptor, int data_type, int /*format*/,
                                               int dimensions, const int* sizes) {
  if (descriptor == nullptr || sizes == nullptr || dimensions < 0) return kBadParameter;
  *descriptor = {data_type, {sizes, sizes + dimensions}, {}};
  return Library::kSuccess;
}

FRUGAL_STAND_IN int cudnnGetFilterNdDescriptor(const TensorDescriptor* descriptor, int requested, int* data_type,
                                               int* format, int* dimensions, int* sizes) {
  if (descriptor == nullptr || requested < 0) return kBadParameter;
  *data_type = descriptor->data_type;
  *format = 0;  // CUDNN_TENSOR_NCHW
  *dimensions = static_cast<int>(descriptor->sizes.size());
  std::copy_n(descriptor->sizes.begin(), std::min<size_t>(requested, descriptor->sizes.size()), sizes);
  return Library::kSuccess;
}

// Batch normalisation and dropout keep no memory of their own here.
WORKSPACE(size_t{0}, cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize, Handle*, int /*mode*/, int /*fused*/,
          const TensorDescriptor* /*x*/, const TensorDescriptor* /*z*/, const TensorDescriptor* /*y*/,
          const TensorDescriptor* /*statistics*/, const Opaque* /*activation*/)
WORKSPACE(size_t{0}, cudnnGetBatchNormalizationBackwardExWorkspaceSize, Handle*, int /*mode*/, int /*fused*/,
          const TensorDescriptor* /*x*/, const TensorDescriptor* /*y*/, const TensorDescriptor* /*dy*/,
          const TensorDescriptor* /*dz*/, const TensorDescriptor* /*dx*/, const TensorDescriptor* /*statistics*/,
          const Opaque* /*activation*/)
WORKSPACE(size_t{0}, cudnnGetBatchNormalizationTrainingExReserveSpaceSize, Handle*, int /*mode*/, int /*fused*/,
          const Opaque* /*activation*/, const TensorDescriptor* /*x*/)
WORKSPACE(size_t{0}, cudnnDropoutGetStatesSize, Handle*)

#include "simulated_gpu/libraries/cudnn_functions.inc"

}  // namespace frugal::sim
