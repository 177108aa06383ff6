#include "simulated_gpu/exports/kernels.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <iterator>

namespace frugal::sim {
namespace {

// The largest element: a complex number of two doubles.
constexpr size_t kLargestElement = 16;

// The size of the type that a mangled name goes on with; 0 if it is not known.
size_t ElementSize(std::string_view mangled) {
  struct TypeSize {
    std::string_view prefix;
    size_t size;
  };
  static constexpr TypeSize kTypes[] = {
      {"N3c104HalfE", 2},      {"N3c108BFloat16E", 2}, {"N3c107complexIdE", 16}, {"N3c107complexIfE", 8},
      {"N3c107complexINS", 4},  // Of Half or BFloat16, mangled as a repetition.
      {"N3c1011Float8", 1},    {"N3c1013Float8", 1},   {"N3c1014Float8", 1},     {"N3c1015Float8", 1},
  };
  for (const TypeSize& known : kTypes) {
    if (mangled.starts_with(known.prefix)) return known.size;
  }
  // Those of the language itself have a letter each.
  constexpr std::string_view kLetters[] = {"", "abch", "st", "", "fij", "", "", "", "dlm"};
  for (size_t size = 1; size < std::size(kLetters) && !mangled.empty(); ++size) {
    if (kLetters[size].find(mangled.front()) != std::string_view::npos) return size;
  }
  return 0;
}

struct Element {
  std::array<char, kLargestElement> bytes;
  size_t size;
};

void Fill(char* start, int64_t count, const Element& element) {
  if (count <= 0) return;
  const size_t total = static_cast<size_t>(count) * element.size;
  std::memcpy(start, element.bytes.data(), element.size);
  // Doubles what is filled until all is.
  for (size_t filled = element.size; filled < total;) {
    const size_t more = std::min(filled, total - filled);
    std::memcpy(start + filled, start, more);
    filled += more;
  }
}

}  // namespace

Kernels& Kernels::Table() {
  static auto* table = new Kernels;
  return *table;
}

void Kernels::Register(const void* host, std::string_view name) {
  const Kernel kernel = Classify(name);
  if (kernel.kind == Kind::kOther) return;
  std::lock_guard lock(mutex_);
  kernels_[host] = kernel;
}

void Kernels::RegisterModule(const void* host, const void* module) {
  std::lock_guard lock(mutex_);
  modules_[host] = module;
}

const void* Kernels::ModuleOf(const void* host) const {
  std::lock_guard lock(mutex_);
  const auto it = modules_.find(host);
  return it == modules_.end() ? nullptr : it->second;
}

Kernels::Kernel Kernels::Classify(std::string_view name) {
  if (name.find("11spin_kernel") != std::string_view::npos) return {Kind::kSleep, 0};
  // The functor has to be the kernel's own, not an argument of another one: it follows the kernel's name but for a
  // number of elements ("ILi4E") and its namespace ("N2at6native" or "NS0_").
  constexpr std::string_view kFunctor = "11FillFunctorI";
  constexpr size_t kFarthest = 24;
  for (std::string_view kernel : {"vectorized_elementwise_kernelI", "unrolled_elementwise_kernelI"}) {
    const size_t found = name.find(kernel);
    if (found == std::string_view::npos) continue;
    const size_t end = found + kernel.size();
    const size_t functor = name.find(kFunctor, end);
    if (functor == std::string_view::npos || functor - end > kFarthest) continue;
    const size_t size = ElementSize(name.substr(functor + kFunctor.size()));
    if (size > 0) return {Kind::kFill, size};
  }
  return {};
}

Work Kernels::MakeWork(const void* host, void** arguments, const Configuration& configuration) const {
  Kernel kernel;
  {
    std::lock_guard lock(mutex_);
    if (const auto it = kernels_.find(host); it != kernels_.end()) kernel = it->second;
  }
  Work work{WorkKind::kKernel, configuration.DurationOf(Bytes(0)), nullptr};
  if (kernel.kind == Kind::kSleep) {
    int64_t cycles = 0;  // Of a clock that ticks once a nanosecond.
    std::memcpy(&cycles, arguments[0], sizeof(cycles));
    work.duration = Nanoseconds(cycles);
  } else if (kernel.kind == Kind::kFill) {
    // (int count, FillFunctor<T> of one value, array of one pointer, ...)
    int count = 0;
    Element element{{}, kernel.element_size};
    char* start = nullptr;
    std::memcpy(&count, arguments[0], sizeof(count));
    std::memcpy(element.bytes.data(), arguments[1], kernel.element_size);
    std::memcpy(&start, arguments[2], sizeof(start));
    const Bytes size(int64_t{count} * static_cast<int64_t>(element.size));
    if (configuration.moves(size)) {
      work.run = [=] { Fill(start, count, element); };
    }
    work.duration = configuration.DurationOf(size);
    if (configuration.wants_uses()) {
      work.name = "fill kernel";
      work.uses = {{Address(start), size, /*writes=*/true}};
    }
  }
  return work;
}

}  // namespace frugal::sim
