#include <array>
#include <iomanip>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/replay/request.h"

namespace frugal::replay {
namespace {

constexpr std::array kOutcomes = {"completed", "out_of_memory", "failed"};
constexpr std::array kStates = {"live", "awaiting", "free", "hole"};

std::string Quoted(std::string_view text) {
  std::ostringstream out;
  out << '"' << std::hex << std::setfill('0');
  for (const char character : text) {
    if (character == '"' || character == '\\') {
      out << '\\' << character;
    } else if (static_cast<unsigned char>(character) < ' ') {
      out << "\\u" << std::setw(4) << int{character};
    } else {
      out << character;
    }
  }
  out << '"';
  return out.str();
}

template <typename Values, typename Write>
std::string List(const Values& values, char open, char close, Write write) {
  std::ostringstream out;
  const char* separator = "";
  out << open;
  for (const auto& value : values) {
    out << separator;
    write(out, value);
    separator = ",";
  }
  out << close;
  return out.str();
}

std::string ToJson(const Costs& costs) {
  size_t number = 0;
  std::ostringstream out;
  out << R"({"driver_calls":)"
      << List(kCallKinds, '{', '}',
              [&](std::ostream& list, const char* kind) {
                list << '"' << kind << "\":" << costs.driver_calls[number++];
              })
      << R"(,"driver_ns":)" << costs.driver_ns << R"(,"host_ns":)" << costs.host_ns << '}';
  return out.str();
}

}  // namespace

std::string ToJson(const Result& result) {
  std::ostringstream out;
  out << std::setprecision(std::numeric_limits<double>::max_digits10);
  out << R"({"outcome":")" << kOutcomes[static_cast<size_t>(result.outcome)]  //
      << R"(","failed_at":)" << result.failed_at                              //
      << R"(,"peak_reserved_bytes":)" << result.peak_reserved_bytes           //
      << R"(,"peak_reserved_at":)" << result.peak_reserved_at                 //
      << R"(,"driver_ns_to_peak":)" << result.driver_ns_to_peak               //
      << R"(,"costs":)" << ToJson(result.costs)                               //
      << R"(,"steady":)" << ToJson(result.steady)                             //
      << R"(,"steady_allocations":)" << result.steady_allocations             //
      << R"(,"order_accesses":)" << result.order_accesses                     //
      << R"(,"message":)" << Quoted(result.message);
  out << R"(,"samples":)" << List(result.samples, '[', ']', [](std::ostream& list, uint64_t bytes) { list << bytes; });
  out << R"(,"runs":)" << List(result.runs, '[', ']', [](std::ostream& list, const Run& run) {
    list << '[' << run.address << ',' << run.bytes << ",\"" << kStates[static_cast<size_t>(run.state)] << "\"]";
  });
  out << R"(,"ns_per_pair":)";
  if (result.ns_per_pair) {
    out << *result.ns_per_pair;
  } else {
    out << "null";
  }
  out << '}';
  return out.str();
}

}  // namespace frugal::replay
