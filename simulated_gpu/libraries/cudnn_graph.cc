// The stand-in for cuDNN's graph interface, through which PyTorch runs convolutions and attention. A descriptor is
// whatever attributes were set on it; every graph has one engine, which fits it; executing a plan is one kernel.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

#include "simulated_gpu/libraries/cudnn_objects.h"
#include "simulated_gpu/libraries/cudnn_workspace.h"

namespace frugal::sim {
namespace {

// cudnnBackendAttributeType_t, those whose width or meaning matters here; the elements of all others are enums of four
// bytes.
enum AttributeType {
  kHandleType = 0,
  kBooleanType = 2,
  kInt64Type = 3,
  kDoubleType = 5,
  kPointerType = 6,
  kDescriptorType = 15,
  kInt32Type = 23,
  kCharType = 24,
  kFractionType = 26,
};

// cudnnBackendAttributeName_t, those that are computed rather than set.
enum AttributeName {
  kHeuristicResults = 202,
  kConfigurationWorkspaceBytes = 303,
  kConfigurationSharedMemoryBytes = 304,
  kPlanWorkspaceBytes = 402,
  kGraphEngineCount = 802,
  kEngineIndex = 1301,
};

// cudnnBackendAttributeName_t of what is set and read here.
constexpr int kTensorDataType = 901;
constexpr int kTensorSizes = 902;
constexpr int kTensorStrides = 903;
constexpr int kPackedWorkspace = 1003;

// The attributes by which an operation is a convolution.
struct ConvolutionNames {
  ConvolutionPass pass;
  int filter;
  int input;
  int output;
};
constexpr ConvolutionNames kConvolutions[] = {
    {ConvolutionPass::kForward, 703, 704, 705},
    {ConvolutionPass::kDataGradient, 709, 710, 711},
    {ConvolutionPass::kFilterGradient, 715, 716, 717},
};

size_t ElementBytesOf(int type) {
  switch (type) {
    case kBooleanType:
    case kCharType:
      return 1;
    case kHandleType:
    case kInt64Type:
    case kDoubleType:
    case kPointerType:
    case kDescriptorType:
      return 8;
    case kFractionType:
      return 16;
    default:
      return 4;
  }
}

struct Attribute {
  int type = 0;
  int64_t count = 0;
  std::vector<std::byte> elements = {};
};

}  // namespace

// What cudnnBackendDescriptor_t points to.
struct GraphDescriptor {
  std::map<int, Attribute> attributes;
  // Of a convolution, and of what it has become part of: a graph of operations, an engine, a plan.
  size_t workspace_bytes = 0;
};

namespace {

template <typename Integer>
Attribute IntegerAttribute(int type, Integer value) {
  Attribute attribute{.type = type, .count = 1};
  attribute.elements.resize(sizeof(value));
  std::memcpy(attribute.elements.data(), &value, sizeof(value));
  return attribute;
}

// An attribute that is neither computed nor set has no elements; but an engine has an index.
Attribute Find(const GraphDescriptor& descriptor, int name, int type) {
  switch (name) {
    case kConfigurationWorkspaceBytes:
    case kPlanWorkspaceBytes:
      return IntegerAttribute(kInt64Type, static_cast<int64_t>(descriptor.workspace_bytes));
    case kConfigurationSharedMemoryBytes:
      return IntegerAttribute(kInt32Type, int32_t{0});
    case kGraphEngineCount:
      return IntegerAttribute(kInt64Type, int64_t{1});
    default: {
      const auto found = descriptor.attributes.find(name);
      if (found != descriptor.attributes.end()) return found->second;
      return name == kEngineIndex ? IntegerAttribute(kInt64Type, int64_t{0}) : Attribute{.type = type};
    }
  }
}

template <typename Element>
std::vector<Element> ElementsOf(const GraphDescriptor& descriptor, int name) {
  const auto found = descriptor.attributes.find(name);
  if (found == descriptor.attributes.end()) return {};
  std::vector<Element> elements(found->second.elements.size() / sizeof(Element));
  std::memcpy(elements.data(), found->second.elements.data(), elements.size() * sizeof(Element));
  return elements;
}

ConvolutionTensor TensorOf(const GraphDescriptor& operation, int name) {
  const auto held = ElementsOf<uintptr_t>(operation, name);
  if (held.size() != 1 || held[0] == 0) return {};
  const auto& tensor = *reinterpret_cast<const GraphDescriptor*>(held[0]);
  const auto type = ElementsOf<int>(tensor, kTensorDataType);
  return {.data_type = type.empty() ? 0 : type[0],
          .sizes = ElementsOf<int64_t>(tensor, kTensorSizes),
          .strides = ElementsOf<int64_t>(tensor, kTensorStrides)};
}

// What a graph asks for that has no convolution, too: its descriptors are made before it is known what they are of.
size_t WorkspaceOf(const GraphDescriptor& descriptor) {
  for (const ConvolutionNames& names : kConvolutions) {
    if (!descriptor.attributes.contains(names.filter)) continue;
    const Convolution convolution{names.pass, TensorOf(descriptor, names.input), TensorOf(descriptor, names.filter),
                                  TensorOf(descriptor, names.output)};
    return AskedWorkspace([](const WorkspaceGpu& gpu,
                             const void* of) { return ModelledWorkspace(*static_cast<const Convolution*>(of), gpu); },
                          &convolution);
  }
  return AskedWorkspace([](const WorkspaceGpu&, const void*) { return size_t{0}; }, nullptr);
}

// A descriptor needs what those need that are set in it.
void TakeWorkspace(GraphDescriptor& descriptor, const Attribute& set) {
  if (set.type != kDescriptorType) return;
  const auto* held = reinterpret_cast<GraphDescriptor* const*>(set.elements.data());
  for (int64_t i = 0; i < set.count; ++i) {
    if (held[i] != nullptr) descriptor.workspace_bytes = std::max(descriptor.workspace_bytes, held[i]->workspace_bytes);
  }
}

// Descriptors are answered into ones that the caller has made: they get the attributes of those that are held.
void CopyDescriptors(const Attribute& held, int64_t count, void* elements) {
  const auto* from = reinterpret_cast<GraphDescriptor* const*>(held.elements.data());
  auto* to = static_cast<GraphDescriptor**>(elements);
  for (int64_t i = 0; i < count; ++i) {
    if (to[i] != nullptr && from[i] != nullptr) *to[i] = *from[i];
  }
}

}  // namespace

FRUGAL_STAND_IN int cudnnBackendCreateDescriptor(int /*type*/, GraphDescriptor** descriptor) {
  return kLibrary.Create(descriptor);
}

FRUGAL_STAND_IN int cudnnBackendDestroyDescriptor(GraphDescriptor* descriptor) { return kLibrary.Destroy(descriptor); }

FRUGAL_STAND_IN int cudnnBackendInitialize(GraphDescriptor* descriptor) {
  return descriptor == nullptr ? kBadParameter : Library::kSuccess;
}

FRUGAL_STAND_IN int cudnnBackendFinalize(GraphDescriptor* descriptor) {
  if (descriptor == nullptr) return kBadParameter;
  descriptor->workspace_bytes = std::max(descriptor->workspace_bytes, WorkspaceOf(*descriptor));
  return Library::kSuccess;
}

FRUGAL_STAND_IN int cudnnBackendSetAttribute(GraphDescriptor* descriptor, int name, int type, int64_t count,
                                             const void* elements) {
  if (descriptor == nullptr || count < 0 || (count > 0 && elements == nullptr)) return kBadParameter;
  const auto* first = static_cast<const std::byte*>(elements);
  Attribute& set = descriptor->attributes[name];
  set = {type, count, {first, first + count * ElementBytesOf(type)}};
  TakeWorkspace(*descriptor, set);
  return Library::kSuccess;
}

FRUGAL_STAND_IN int cudnnBackendGetAttribute(GraphDescriptor* descriptor, int name, int type, int64_t requested,
                                             int64_t* count, void* elements) {
  if (descriptor == nullptr || requested < 0) return kBadParameter;
  if (name == kHeuristicResults) {
    // One engine configuration: the empty descriptor that the caller has made for it.
    if (count != nullptr) *count = 1;
    auto* const* results = static_cast<GraphDescriptor* const*>(elements);
    if (results != nullptr && requested > 0 && results[0] != nullptr) {
      results[0]->workspace_bytes = descriptor->workspace_bytes;
    }
    return Library::kSuccess;
  }
  const Attribute held = Find(*descriptor, name, type);
  if (count != nullptr) *count = held.count;
  if (elements == nullptr) return Library::kSuccess;
  const int64_t copied = std::min(requested, held.count);
  if (held.type == kDescriptorType) {
    CopyDescriptors(held, copied, elements);
  } else if (copied > 0) {
    std::memcpy(elements, held.elements.data(), copied * ElementBytesOf(held.type));
  }
  return Library::kSuccess;
}

FRUGAL_STAND_IN int cudnnBackendExecute(Handle* handle, GraphDescriptor* plan, GraphDescriptor* variant_pack) {
  if (handle == nullptr || plan == nullptr || variant_pack == nullptr) return kBadParameter;
  const auto workspace = ElementsOf<uintptr_t>(*variant_pack, kPackedWorkspace);
  if (workspace.size() == 1) NoteWorkspace(reinterpret_cast<const void*>(workspace[0]), plan->workspace_bytes);
  return kLibrary.Compute(handle);
}

}  // namespace frugal::sim
