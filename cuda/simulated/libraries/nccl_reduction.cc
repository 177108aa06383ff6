#include "cuda/simulated/libraries/nccl_reduction.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <variant>

#include "cuda/simulated/libraries/nccl_types.h"

namespace frugal::sim::nccl {
namespace {

constexpr int kHalfBias = 15;
constexpr int kHalfFraction = 10;  // Bits.

// Numbers of two bytes, which are computed with as floats.
struct Half {
  uint16_t bits;

  float Widen() const {
    const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
    const int exponent = (bits >> kHalfFraction) & 0x1f;
    const auto fraction = static_cast<float>(bits & 0x3ff);
    if (exponent == 0x1f) return fraction == 0 ? sign * INFINITY : NAN;
    if (exponent == 0) return sign * std::ldexp(fraction, 1 - kHalfBias - kHalfFraction);
    return sign * std::ldexp(fraction + 1024, exponent - kHalfBias - kHalfFraction);
  }

  static Half Narrow(float value) {
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    if (std::isnan(value)) return {static_cast<uint16_t>(sign | 0x7e00)};
    const float magnitude = std::fabs(value);
    if (magnitude >= 65520) return {static_cast<uint16_t>(sign | 0x7c00)};
    if (magnitude < std::ldexp(1.0F, -14)) {
      return {static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(std::ldexp(magnitude, 24))))};
    }
    int exponent = 0;
    const float fraction = std::frexp(magnitude, &exponent);  // In [0.5, 1).
    // Rounding up to the next power of two carries into the exponent, as it should.
    const auto rounded = static_cast<int>(std::nearbyint(std::ldexp(fraction, kHalfFraction + 1))) - 1024;
    const int biased = exponent - 1 + kHalfBias;
    return {static_cast<uint16_t>(sign | ((biased << kHalfFraction) + rounded))};
  }
};

struct Bfloat {
  uint16_t bits;

  float Widen() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

  static Bfloat Narrow(float value) {
    const auto wide = std::bit_cast<uint32_t>(value);
    if (std::isnan(value)) return {static_cast<uint16_t>((wide >> 16) | 0x40)};
    return {static_cast<uint16_t>((wide + 0x7fff + ((wide >> 16) & 1)) >> 16)};
  }
};

// What elements of a type are computed as. Integers wrap around, as a GPU's do.
template <typename Element>
struct Arithmetic {
  using Wide = Element;
  static Wide Load(Element element) { return element; }
  static Element Store(Wide wide) { return wide; }
};

template <typename Element>
struct NarrowArithmetic {
  using Wide = float;
  static Wide Load(Element element) { return element.Widen(); }
  static Element Store(Wide wide) { return Element::Narrow(wide); }
};
template <>
struct Arithmetic<Half> : NarrowArithmetic<Half> {};
template <>
struct Arithmetic<Bfloat> : NarrowArithmetic<Bfloat> {};

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
  using As = Arithmetic<Element>;
  using Wide = typename As::Wide;
  for (size_t i = 0; i < count; ++i) {
    Wide result = As::Load(At<Element>(parts[0], i));
    for (size_t part = 1; part < parts.size(); ++part) {
      result = Combine(op, result, As::Load(At<Element>(parts[part], i)));
    }
    if (op == kAverage) result = static_cast<Wide>(result / static_cast<Wide>(parts.size()));
    Put<Element>(target, i, As::Store(result));
  }
}

template <typename Element>
void ScaleAs(double factor, void* elements, size_t count) {
  using As = Arithmetic<Element>;
  using Wide = typename As::Wide;
  for (size_t i = 0; i < count; ++i) {
    const Wide scaled = static_cast<Wide>(As::Load(At<Element>(elements, i)) * static_cast<Wide>(factor));
    Put<Element>(elements, i, As::Store(scaled));
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
    result = static_cast<double>(Arithmetic<Type>::Load(At<Type>(element, 0)));
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
