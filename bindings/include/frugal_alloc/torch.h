// frugal_alloc for C++ programs on LibTorch: the library frugal_alloc_torch<version>.so in PyTorch's place.
//
//   #include <frugal_alloc/torch.h>
//   if (frugal_alloc::Status status = frugal_alloc::install(); !status) std::cerr << status.message() << '\n';
//
// Link the library that was built for your torch (frugal_alloc_torch211.so for 2.11). Nothing but the C++ standard
// library is needed here.

#ifndef FRUGAL_ALLOC_TORCH_H_
#define FRUGAL_ALLOC_TORCH_H_

#include <cstdint>
#include <string>
#include <utility>

extern "C" {
const char* frugal_last_error(void);
int frugal_enable(void);
int frugal_disable(void);
int frugal_is_enabled(void);
int64_t frugal_trim(void);
}

namespace frugal_alloc {

// Whether a call succeeded; if not, one line that says what stands in the way and what to do.
class [[nodiscard]] Status {
 public:
  Status() = default;
  explicit Status(std::string message) : ok_(false), message_(std::move(message)) {}

  bool ok() const { return ok_; }
  explicit operator bool() const { return ok_; }
  const std::string& message() const { return message_; }

 private:
  bool ok_ = true;
  std::string message_;
};

// New CUDA memory of this process is frugal_alloc's from now on. May be called before CUDA has started (which it does
// not start) or at any time later, from any thread, and again; on failure PyTorch goes on as before.
inline Status install() { return frugal_enable() == 0 ? Status() : Status(frugal_last_error()); }

// New memory comes from PyTorch's native allocator again; what was handed out stays valid and is freed as usual.
inline Status uninstall() { return frugal_disable() == 0 ? Status() : Status(frugal_last_error()); }

// New memory is frugal_alloc's.
inline bool installed() { return frugal_is_enabled() != 0; }

// Gives idle memory of all GPUs back to the driver; `freed`, if given, receives the bytes.
inline Status trim(int64_t* freed = nullptr) {
  const int64_t bytes = frugal_trim();
  if (bytes < 0) return Status(frugal_last_error());
  if (freed != nullptr) *freed = bytes;
  return Status();
}

}  // namespace frugal_alloc

#endif  // FRUGAL_ALLOC_TORCH_H_
