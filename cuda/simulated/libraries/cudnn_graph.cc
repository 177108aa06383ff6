// The stand-in for cuDNN's graph interface, through which PyTorch runs convolutions and attention. A descriptor is
// whatever attributes were set on it; every graph has one engine, which fits it; executing a plan is one kernel.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

#include "cuda/simulated/libraries/cudnn_objects.h"

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
      return IntegerAttribute(kInt64Type, static_cast<int64_t>(WorkspaceBytes()));
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
  if (descriptor == nullptr) return kDnnBadParameter;
  *descriptor = new GraphDescriptor;
  return kDnnSuccess;
}

FRUGAL_STAND_IN int cudnnBackendDestroyDescriptor(GraphDescriptor* descriptor) {
  delete descriptor;
  return kDnnSuccess;
}

FRUGAL_STAND_IN int cudnnBackendInitialize(GraphDescriptor* descriptor) {
  return descriptor == nullptr ? kDnnBadParameter : kDnnSuccess;
}

FRUGAL_STAND_IN int cudnnBackendFinalize(GraphDescriptor* descriptor) {
  return descriptor == nullptr ? kDnnBadParameter : kDnnSuccess;
}

FRUGAL_STAND_IN int cudnnBackendSetAttribute(GraphDescriptor* descriptor, int name, int type, int64_t count,
                                             const void* elements) {
  if (descriptor == nullptr || count < 0 || (count > 0 && elements == nullptr)) return kDnnBadParameter;
  const auto* first = static_cast<const std::byte*>(elements);
  descriptor->attributes[name] = {type, count, {first, first + count * ElementBytesOf(type)}};
  return kDnnSuccess;
}

FRUGAL_STAND_IN int cudnnBackendGetAttribute(GraphDescriptor* descriptor, int name, int type, int64_t requested,
                                             int64_t* count, void* elements) {
  if (descriptor == nullptr || requested < 0) return kDnnBadParameter;
  if (name == kHeuristicResults) {
    // One engine configuration; the empty descriptor that the caller has made for it will do.
    if (count != nullptr) *count = 1;
    return kDnnSuccess;
  }
  const Attribute held = Find(*descriptor, name, type);
  if (count != nullptr) *count = held.count;
  if (elements == nullptr) return kDnnSuccess;
  const int64_t copied = std::min(requested, held.count);
  if (held.type == kDescriptorType) {
    CopyDescriptors(held, copied, elements);
  } else if (copied > 0) {
    std::memcpy(elements, held.elements.data(), copied * ElementBytesOf(held.type));
  }
  return kDnnSuccess;
}

FRUGAL_STAND_IN int cudnnBackendExecute(DnnHandle* handle, GraphDescriptor* plan, GraphDescriptor* variant_pack) {
  if (handle == nullptr || plan == nullptr || variant_pack == nullptr) return kDnnBadParameter;
  return handle->Compute();
}

}  // namespace frugal::sim
