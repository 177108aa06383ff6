// What the functions of c_api.h share: how they find a GPU, answer and fail.

#pragma once

#include <cstdint>
#include <exception>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "bindings/adapter/torch_allocator.h"

namespace frugal {

inline constexpr char kNotEnabled[] = "frugal_alloc is not enabled: call frugal_alloc.enable() first";

// null: it has not been opened, or there is none, or we were never enabled.
GpuMemory* FindGpu(int number);

// What frugal_last_error says on the calling thread.
std::string& LastError();

// -1, after the message has become the last error.
int Failed(absl::string_view message);

// What f() returns; if it throws, -1, or -2 where memory ran out.
template <typename F>
int64_t Guarded(F&& f) {
  try {
    return f();
  } catch (const c10::OutOfMemoryError& error) {
    Failed(error.what_without_backtrace());
    return -2;
  } catch (const c10::Error& error) {
    return Failed(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return Failed(error.what());
  }
}

// What f(TorchAllocator&) returns, or as Guarded() says; 0 where we were never enabled.
template <typename F>
int64_t WithAllocator(F&& f) {
  TorchAllocator* const allocator = TorchAllocator::Instance();
  return allocator == nullptr ? 0 : Guarded([&] { return static_cast<int64_t>(f(*allocator)); });
}

// 0, or -1 after its message has become the last error.
inline int ToResult(const absl::Status& status) { return status.ok() ? 0 : Failed(status.message()); }

// The JSON text, valid until the next one on the calling thread.
const char* LendJson(std::string json);

}  // namespace frugal
