#include "simulated_gpu/libraries/cudnn_workspace.h"

#include <algorithm>
#include <cstdlib>

#include "simulated_gpu/libraries/cudnn_objects.h"

namespace frugal::sim {
namespace {

// cudnnDataType_t
constexpr int kFloat = 0;
constexpr int kHalf = 2;
constexpr int kBfloat16 = 9;

// Whether tensor cores multiply such numbers: float as TF32, which PyTorch allows in convolutions by default.
bool HasTensorCoresFor(int data_type, int capability) {
  if (data_type == kHalf) return capability >= 70;
  return (data_type == kFloat || data_type == kBfloat16) && capability >= 80;
}

int64_t Groups(const Convolution& of) {
  if (of.filter.sizes.size() < 2 || of.input.sizes.size() < 2) return 1;
  return std::max<int64_t>(1, of.input.sizes[1] / std::max<int64_t>(1, of.filter.sizes[1]));
}

int64_t DividedUp(int64_t number, int64_t by) { return (number + by - 1) / by; }

// Kernels on tensor cores take channels side by side: what lies otherwise is converted. Those for float write the
// result of a forward pass with its channels apart.
size_t Conversions(const Convolution& of, int capability) {
  const bool is_depthwise = of.input.sizes.size() > 1 && of.input.sizes[1] > 1 && Groups(of) == of.input.sizes[1];
  if (is_depthwise || !HasTensorCoresFor(of.input.data_type, capability)) return 0;
  const bool writes_apart = of.pass == ConvolutionPass::kForward && of.input.data_type == kFloat;
  size_t bytes = 0;
  for (const ConvolutionTensor* tensor : {&of.input, &of.filter, &of.output}) {
    if (tensor->HasChannels() && tensor->IsChannelsFirst() != (tensor == &of.output && writes_apart)) {
      bytes += tensor->Bytes();
    }
  }
  return bytes;
}

// A filter's gradient is a small matrix summed over all pixels: the sum is split so that each multiprocessor has a
// part, each part with a matrix of its own in single precision.
size_t PartialSums(const Convolution& of, int multiprocessors) {
  constexpr int64_t kTile = 128;
  constexpr int64_t kLeastPixels = 256;
  const int64_t groups = Groups(of);
  const int64_t rows = of.filter.sizes.empty() ? 0 : of.filter.sizes[0] / groups;
  if (rows == 0 || of.output.sizes.size() < 2 || of.output.sizes[1] == 0) return 0;
  const int64_t columns = of.filter.Elements() / of.filter.sizes[0];
  const int64_t tiles = groups * DividedUp(rows, kTile) * DividedUp(columns, kTile);
  const int64_t pixels = of.output.Elements() / of.output.sizes[1];
  const int64_t parts = std::min(multiprocessors / std::max<int64_t>(1, tiles), pixels / kLeastPixels);
  return parts > 1 ? static_cast<size_t>(parts * of.filter.Elements()) * sizeof(float) : 0;
}

}  // namespace

int64_t ConvolutionTensor::Elements() const {
  int64_t elements = 1;
  for (const int64_t size : sizes) elements *= size;
  return elements;
}

size_t ConvolutionTensor::Bytes() const { return static_cast<size_t>(Elements()) * ElementBytes(data_type); }

bool ConvolutionTensor::HasChannels() const {
  return sizes.size() > 1 && strides.size() == sizes.size() && sizes[1] > 1;
}

bool ConvolutionTensor::IsChannelsFirst() const { return HasChannels() && strides[1] != 1; }

size_t ModelledWorkspace(const Convolution& convolution, const WorkspaceGpu& gpu) {
  const size_t converted = Conversions(convolution, gpu.capability);
  if (convolution.pass != ConvolutionPass::kFilterGradient) return converted;
  return converted + PartialSums(convolution, gpu.multiprocessors);
}

size_t AskedWorkspace(size_t (*model)(const WorkspaceGpu& gpu, const void* of), const void* of) {
  static const char* const given = std::getenv("FRUGAL_SIM_CUDNN_WORKSPACE");
  if (given != nullptr) return static_cast<size_t>(std::strtoull(given, nullptr, 10));
  WorkspaceGpu gpu;
  if (Ask<"frugal_sim_modelled_workspaces">(&gpu.capability, &gpu.multiprocessors) <= 0) return 0;
  return model(gpu, of);
}

}  // namespace frugal::sim
