#include <array>
#include <sstream>
#include <string>
#include <string_view>

#include "bindings/replay/request.h"

namespace frugal::replay {
namespace {

constexpr std::array kOutcomes = {"completed", "out_of_memory", "failed"};

// The first line.
std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char character : text.substr(0, text.find('\n'))) {
    if (character == '"' || character == '\\') quoted += '\\';
    quoted += static_cast<unsigned char>(character) < ' ' ? ' ' : character;
  }
  return quoted + '"';
}

std::string ToJson(const Costs& costs) {
  std::ostringstream out;
  const char* separator = R"({"driver_calls":{")";
  for (size_t kind = 0; kind < kCallKinds.size(); ++kind) {
    out << separator << kCallKinds[kind] << "\":" << costs.driver_calls[kind];
    separator = ",\"";
  }
  out << R"(},"driver_ns":)" << costs.driver_ns << R"(,"host_ns":)" << costs.host_ns << '}';
  return out.str();
}

}  // namespace

std::string ToJson(const Result& result) {
  std::ostringstream out;
  const auto write = [&](const char* name, const auto& value) { out << ",\"" << name << "\":" << value; };
  out << R"({"outcome":")" << kOutcomes[static_cast<size_t>(result.outcome)] << '"';
  write("failed_at", result.failed_at);
  write("peak_reserved_bytes", result.peak_reserved_bytes);
  write("peak_reserved_at", result.peak_reserved_at);
  write("driver_ns_to_peak", result.driver_ns_to_peak);
  write("costs", ToJson(result.costs));
  write("steady", ToJson(result.steady));
  write("steady_allocations", result.steady_allocations);
  write("ns_per_pair", result.ns_per_pair ? std::to_string(*result.ns_per_pair) : "null");
  write("order_accesses", result.order_accesses);
  write("message", Quoted(result.message));
  out << '}';
  return out.str();
}

}  // namespace frugal::replay
