// How the functions of c_api.h answer, and how they fail.

#ifndef FRUGAL_BINDINGS_C_API_C_API_RESULTS_H_
#define FRUGAL_BINDINGS_C_API_C_API_RESULTS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace frugal {

inline constexpr char kNotEnabled[] = "frugal_alloc is not enabled: call frugal_alloc.enable() first";

// What frugal_last_error says on the calling thread.
std::string& LastError();

// -1, after the message has become the last error.
int Failed(absl::string_view message);

// The JSON text, valid until the next one on the calling thread.
const char* LendJson(std::string json);

}  // namespace frugal

#endif  // FRUGAL_BINDINGS_C_API_C_API_RESULTS_H_
