// How much workspace cuDNN's stand-in asks for: a model, which was not measured (docs/simulated_gpu_inside.md has its
// reasons).

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace frugal::sim {

// A tensor of a convolution: images by channel (N, C, H, W), or a filter (K, C, R, S).
struct ConvolutionTensor {
  int data_type = 0;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;

  int64_t Elements() const;
  size_t Bytes() const;
  // More than one, and it is known how they lie.
  bool HasChannels() const;
  // Its channels do not lie side by side.
  bool IsChannelsFirst() const;
};

enum class ConvolutionPass { kForward, kDataGradient, kFilterGradient };

struct Convolution {
  ConvolutionPass pass = ConvolutionPass::kForward;
  ConvolutionTensor input;
  ConvolutionTensor filter;
  ConvolutionTensor output;
};

// What kernels depend on.
struct WorkspaceGpu {
  int capability = 0;
  int multiprocessors = 0;
};

size_t ModelledWorkspace(const Convolution& convolution, const WorkspaceGpu& gpu);

// FRUGAL_SIM_CUDNN_WORKSPACE if it is set; otherwise what `model` says of the simulated GPU where workspaces are
// modelled, else 0.
size_t AskedWorkspace(size_t (*model)(const WorkspaceGpu& gpu, const void* of), const void* of);

}  // namespace frugal::sim
