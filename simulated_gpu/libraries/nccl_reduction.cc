#include "simulated_gpu/libraries/nccl_reduction.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <variant>

#include "simulated_gpu/libraries/nccl_types.h"

namespace frugal::sim::nccl {
namespace {

// Numbers of two bytes, which are computed with as floats.
struct Half {
  uint16_t bits = 0;

  constexpr Half() = default;
  explicit Half(float value)
      : bits(static_cast<uint16_t>((std::signbit(value) ? 0x8000 : 0) | Round(std::fabs(value)))) {}

  explicit operator float() const {
    const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
    const uint32_t magnitude = bits & 0x7fff;
    if (magnitude < 0x400) return sign * static_cast<float>(magnitude) * 0x1p-24F;
    // From one bias of the exponent to the other. Infinity and what is no number have the largest of both.
    const uint32_t more = magnitude < 0x7c00 ? kBiases : 2 * kBiases;
    return sign * std::bit_cast<float>((magnitude + (more << 10)) << 13);
  }

 private:
  static constexpr uint32_t kBiases = 127 - 15;

  static uint32_t Round(float magnitude) {
    if (std::isnan(magnitude)) return 0x7e00;
    if (magnitude >= 65520) return 0x7c00;
    if (magnitude < 0x1p-14F) return static_cast<uint32_t>(std::nearbyint(magnitude * 0x1p24F));
    // Rounding up to the next power of two carries into the exponent, as it should.
    const uint32_t wide = std::bit_cast<uint32_t>(magnitude) - (kBiases << 23);
    return (wide + 0xfff + ((wide >> 13) & 1)) >> 13;
  }
};

struct Bfloat {
  uint16_t bits = 0;

  constexpr Bfloat() = default;
  explicit Bfloat(float value) {
    const auto wide = std::bit_cast<uint32_t>(value);
    bits = static_cast<uint16_t>(std::isnan(value) ? (wide >> 16) | 0x40 : (wide + 0x7fff + ((wide >> 16) & 1)) >> 16);
  }

  explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

// What elements of a type are computed as. Integers wrap around, as a GPU's do.
template <typename Element>
using WideOf = std::conditional_t<std::is_arithmetic_v<Element>, Element, float>;

template <typename Wide>
Wide Combine(int op, Wide left, Wide right) {
  if constexpr (std::is_integral_v<Wide>) {
    using Unsigned = std::make_unsigned_t<Wide>;
    // Of at least 32 bits, so that nothing is promoted to a signed type.
    using Modular = std::conditional_t<sizeof(Wide) < sizeof(unsigned), unsigned, Unsigned>;
    if (op == kProduct) return static_cast<Wide>(static_cast<Modular>(left) * static_cast<Modular>(right));
    if (op == kSum || op == kAverage)
      return static_cast<Wide>(static_cast<Modular>(left) + static_cast<Modular>(right));
  } else {
    if (op == kProduct) return left * right;
    if (op == kSum || op == kAverage) return left + right;
    if (std::isnan(left)) return left;
    if (std::isnan(right)) return right;
  }
  return op == kMaximum ? std::max(left, right) : std::min(left, right);
}

// Memory of any alignment.
template <typename Element>
Element At(const void* elements, size_t i) {
  Element element;
  std::memcpy(&element, static_cast<const char*>(elements) + i * sizeof(Element), sizeof(Element));
  return element;
}

template <typename Element>
void Put(void* elements, size_t i, Element element) {
  std::memcpy(static_cast<char*>(elements) + i * sizeof(Element), &element, sizeof(Element));
}

template <typename Element>
void ReduceAs(int op, const std::vector<const void*>& parts, void* target, size_t count) {
  using Wide = WideOf<Element>;
  for (size_t i = 0; i < count; ++i) {
    auto result = static_cast<Wide>(At<Element>(parts[0], i));
    for (size_t part = 1; part < parts.size(); ++part) {
      result = Combine(op, result, static_cast<Wide>(At<Element>(parts[part], i)));
    }
    if (op == kAverage) result = static_cast<Wide>(result / static_cast<Wide>(parts.size()));
    Put(target, i, static_cast<Element>(result));
  }
}

template <typename Element>
void ScaleAs(double factor, void* elements, size_t count) {
  using Wide = WideOf<Element>;
  for (size_t i = 0; i < count; ++i) {
    const auto scaled = static_cast<Wide>(static_cast<Wide>(At<Element>(elements, i)) * static_cast<Wide>(factor));
    Put(elements, i, static_cast<Element>(scaled));
  }
}

// By DataType.
using AnyElement = std::variant<int8_t, uint8_t, int32_t, uint32_t, int64_t, uint64_t, Half, float, double, Bfloat>;
constexpr std::array<AnyElement, kBfloat16 + 1> kElements = {int8_t(),   uint8_t(), int32_t(), uint32_t(), int64_t(),
                                                             uint64_t(), Half(),    float(),   double(),   Bfloat()};

// Calls `use` with an element of the type.
template <typename Use>
void WithType(int type, Use use) {
  if (type >= 0 && type <= kBfloat16) std::visit(use, kElements[static_cast<size_t>(type)]);
}

}  // namespace

bool CanReduce(const Reduction& reduction) {
  return reduction.type >= kInt8 && reduction.type <= kBfloat16 && reduction.op >= kSum && reduction.op <= kAverage;
}

double ToDouble(int type, const void* element) {
  double result = 0;
  WithType(type, [&](auto sample) {
    using Type = decltype(sample);
    result = static_cast<double>(static_cast<WideOf<Type>>(At<Type>(element, 0)));
  });
  return result;
}

void Scale(const Reduction& reduction, void* elements, size_t count) {
  if (reduction.factor == 1) return;
  WithType(reduction.type, [&](auto element) { ScaleAs<decltype(element)>(reduction.factor, elements, count); });
}

void Reduce(const Reduction& reduction, const std::vector<const void*>& parts, void* target, size_t count) {
  WithType(reduction.type, [&](auto element) { ReduceAs<decltype(element)>(reduction.op, parts, target, count); });
}

}  // namespace frugal::sim::nccl
