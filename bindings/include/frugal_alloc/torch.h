// frugal_alloc for C++ programs: an allocator of CUDA memory that takes the place of PyTorch's caching allocator.
//
//   #include <frugal_alloc/torch.h>
//
//   if (frugal_alloc::Status status = frugal_alloc::enable(); !status) std::cerr << status.message() << '\n';
//   for (...) {
//     ...                          // one epoch of training
//     frugal_alloc::epoch_end();
//   }
//   std::cout << frugal_alloc::report().text;
//
// Link frugal_alloc_torch<version>.so, which is built for one minor version of torch. With CMake that is
// find_package(frugal_alloc REQUIRED) and target_link_libraries(... frugal_alloc::torch); with Bazel it is //:torch.
// docs/cpp.md has the details, and examples/trainer is a complete program.
//
// It needs C++17 and the standard library only. All functions may be called from any thread. Sizes are in bytes.

#ifndef FRUGAL_ALLOC_TORCH_H_
#define FRUGAL_ALLOC_TORCH_H_

#include <frugal_alloc/detail/c_functions.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace frugal_alloc {

// Whether a call succeeded. If it failed, message() is one line that says why, and what you can do.
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

// Settings. Each is text, written as in the environment variable FRUGAL_ALLOC_CONF; docs/tuning.md explains them all.
// An empty field keeps what FRUGAL_ALLOC_CONF says or, if that says nothing, the default.
struct Options {
  std::string memory_limit = {};    // the most memory to hold on each GPU: "20GiB", "80%" (of the GPU), or "off"
  std::string idle_release = {};    // memory goes back to the driver after it was free for this long: "30s", or "off"
  std::string track = {};           // "off": allocations are not recorded, and report() finds no leak
  std::string publish = {};         // "off": `frugal-alloc top` and processes on the same GPU do not see this one
  std::string report_dir = {};      // the folder for reports, or "off"
  std::string suppressions = {};    // path of the file that names what a Python program's reports leave out
  std::string self_check = {};      // how much the allocator verifies while it works: "off", "fast" or "full"
  std::string remap = {};           // "off": physical memory never moves once it is mapped; see also KeepInPlace
  std::string driver_reserve = {};  // memory of each GPU to leave to the driver: "1GiB", or "off"
  std::string host_reserve = {};    // memory to leave to the host, where the GPU uses the host's: "8GiB", or "off"
  std::string driver_costs = {};    // path of the file of driver timings that `frugal-alloc doctor --gpu` writes
  std::string pools = {};           // "mapped": memory of CUDA graphs is mapped, and can sleep; or "segments"
};

namespace detail {

inline std::string ToText(const Options& options) {
  struct Field {
    const char* key;
    std::string Options::*value;
  };
  static constexpr Field kFields[] = {
      {"memory_limit", &Options::memory_limit},
      {"idle_release", &Options::idle_release},
      {"track", &Options::track},
      {"publish", &Options::publish},
      {"report_dir", &Options::report_dir},
      {"suppressions", &Options::suppressions},
      {"self_check", &Options::self_check},
      {"remap", &Options::remap},
      {"driver_reserve", &Options::driver_reserve},
      {"host_reserve", &Options::host_reserve},
      {"driver_costs", &Options::driver_costs},
      {"pools", &Options::pools},
  };
  std::string text;
  for (const Field& field : kFields) {
    const std::string& value = options.*field.value;
    if (!value.empty()) text += std::string(text.empty() ? "" : ",") + field.key + ":" + value;
  }
  return text;
}

inline void TellOfUnfollowedSettings() {
  const char* const text = frugal_unfollowed_settings(nullptr);
  if (*text != '\0') std::fprintf(stderr, "%s\n", text);
}

}  // namespace detail

// From now on frugal_alloc serves all new CUDA memory of this process. Tensors that exist already stay where they are.
// Call it before or after CUDA has started; it does not start CUDA. It may be called again, with other options.
//
// If it fails, nothing has changed, and PyTorch goes on with its own allocator. With FRUGAL_ALLOC=0 in the environment
// it succeeds and does nothing. Settings of PYTORCH_ALLOC_CONF that it does not follow are named on stderr, each once.
inline Status enable(const Options& options = {}) {
  if (frugal_enable_with(detail::ToText(options).c_str()) != 0) return Status(frugal_last_error());
  if (frugal_is_enabled() != 0) detail::TellOfUnfollowedSettings();
  return Status();
}

// Another name of enable(), which says at the call what it does to PyTorch.
inline Status install(const Options& options = {}) { return enable(options); }

// From now on PyTorch's own allocator serves all new memory. Existing tensors stay valid, and are freed as usual.
inline Status disable() { return frugal_disable() == 0 ? Status() : Status(frugal_last_error()); }

// Whether frugal_alloc serves new memory now.
inline bool is_enabled() { return frugal_is_enabled() != 0; }

// frugal_alloc may move free physical memory to other addresses. While this object lives the memory behind
// [address, address + bytes) does not move, even after its tensor has been freed. Use it for memory that is registered
// with a network card, NCCL or another process. status() says whether it could be kept.
//
// The range grows to whole pieces of physical memory, of at least 2 MiB. Memory that is not frugal_alloc's never moves.
class [[nodiscard]] KeepInPlace {
 public:
  KeepInPlace(const void* address, int64_t bytes) : address_(address), bytes_(bytes) {
    if (frugal_keep_in_place(address, bytes, 1) != 0) status_ = Status(frugal_last_error());
  }
  ~KeepInPlace() {
    // Nothing that was kept is unknown.
    if (status_.ok()) static_cast<void>(frugal_keep_in_place(address_, bytes_, 0));
  }
  KeepInPlace(const KeepInPlace&) = delete;
  KeepInPlace& operator=(const KeepInPlace&) = delete;

  const Status& status() const { return status_; }

 private:
  const void* address_;
  int64_t bytes_;
  Status status_;
};

// While this object lives, memory that this thread, and no other, allocates comes from cudaMalloc, for who takes it in
// one handle only, such as cudaIpcGetMemHandle. May be nested. Does nothing before enable(). status() is as above.
class [[nodiscard]] CudaMalloc {
 public:
  CudaMalloc() : status_(frugal_cuda_malloc(1) == 0 ? Status() : Status(frugal_last_error())) {}
  ~CudaMalloc() {
    if (status_.ok()) static_cast<void>(frugal_cuda_malloc(0));
  }
  CudaMalloc(const CudaMalloc&) = delete;
  CudaMalloc& operator=(const CudaMalloc&) = delete;
  const Status& status() const { return status_; }

 private:
  Status status_;
};

// What frugal_alloc holds on one GPU, and what it has done there since it was enabled. Each peak_* is the highest
// value since then or since PyTorch's peak statistics were reset.
struct MemoryStats {
  int64_t allocated_bytes = 0;  // in tensors, each rounded up to a multiple of 512 bytes
  int64_t peak_allocated_bytes = 0;
  int64_t requested_bytes = 0;  // in tensors, without the rounding
  int64_t peak_requested_bytes = 0;
  int64_t active_bytes = 0;  // in tensors, and in freed blocks that a CUDA stream may still be using
  int64_t peak_active_bytes = 0;
  int64_t reserved_bytes = 0;  // physical memory that frugal_alloc holds, in use or free
  int64_t peak_reserved_bytes = 0;
  int64_t blocks = 0;  // allocations that have not been freed
  int64_t allocations = 0;
  int64_t frees = 0;
  int64_t stitches = 0;        // times that separate pieces of free memory were mapped side by side to serve a request
  int64_t stitched_bytes = 0;  // of those requests
  int64_t retries = 0;         // times that cached memory had to be given back before a request could be served
  int64_t out_of_memory_errors = 0;
};

// The statistics of one GPU. All are 0 if frugal_alloc has not served memory there.
inline MemoryStats memory_stats(int gpu = 0) {
  struct Figure {
    const char* name;
    int64_t MemoryStats::*member;
  };
  static constexpr Figure kFigures[] = {
      {"allocated_bytes", &MemoryStats::allocated_bytes},
      {"peak_allocated_bytes", &MemoryStats::peak_allocated_bytes},
      {"requested_bytes", &MemoryStats::requested_bytes},
      {"peak_requested_bytes", &MemoryStats::peak_requested_bytes},
      {"active_bytes", &MemoryStats::active_bytes},
      {"peak_active_bytes", &MemoryStats::peak_active_bytes},
      {"reserved_bytes", &MemoryStats::reserved_bytes},
      {"peak_reserved_bytes", &MemoryStats::peak_reserved_bytes},
      {"blocks", &MemoryStats::blocks},
      {"allocations", &MemoryStats::allocations},
      {"frees", &MemoryStats::frees},
      {"stitches", &MemoryStats::stitches},
      {"stitched_bytes", &MemoryStats::stitched_bytes},
      {"retries", &MemoryStats::retries},
      {"out_of_memory_errors", &MemoryStats::out_of_memory_errors},
  };
  MemoryStats stats;
  const int count = frugal_stats(gpu, nullptr, 0);
  if (count < 0) return stats;
  std::vector<int64_t> values(static_cast<size_t>(count));
  frugal_stats(gpu, values.data(), count);
  const char* name = frugal_stat_names();
  for (const int64_t value : values) {
    const size_t length = std::strcspn(name, " ");
    for (const Figure& figure : kFigures) {
      if (std::string(name, length) == figure.name) stats.*figure.member = value;
    }
    name += length + (name[length] == ' ' ? 1 : 0);
  }
  return stats;
}

// --- Leaks: memory of which a program keeps more after every epoch. An epoch is a stretch of the program after which
// it should hold as much memory as before, such as a pass over the training data.

// Says that an epoch ends here. Free first what the next epoch does not need, such as the last batch and its loss: what
// is alive now counts as kept. Does nothing before enable().
inline void epoch_end() { static_cast<void>(frugal_epoch_end()); }

// Names a phase of the program. While the object lives, the memory that this thread allocates belongs to the phase, and
// report() tells by phase where memory is kept. Phases may be nested: the innermost counts. Memory that PyTorch's own
// threads allocate in a backward pass belongs to no phase.
//
//   frugal_alloc::Phase phase("evaluation");
class [[nodiscard]] Phase {
 public:
  explicit Phase(const char* name) : outer_(frugal_set_phase(frugal_phase(name))) {}
  ~Phase() { frugal_set_phase(outer_); }
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;

 private:
  int outer_;
};

// Says that the phase of this name is meant to keep more memory from epoch to epoch, as a cache does. Reports leave it
// out.
inline void expect_growth(const char* name) { static_cast<void>(frugal_expect_growth(frugal_phase(name))); }

// Memory that is kept from epoch to epoch: blocks of similar size that were allocated at the same site.
struct Verdict {
  enum class Kind {
    kSuspect = 1,  // every epoch seems to leave some behind; a few more epochs will tell
    kLeak = 2,     // every epoch leaves some behind
    kGrowing = 3,  // nothing is left behind, but what is freed is replaced by something larger
  };
  Kind kind = Kind::kSuspect;
  int gpu = 0;
  std::string site;           // the phase, or "train.py:12 in step" if Python code allocated it; "" if neither is known
  int64_t largest_block = 0;  // no block is larger, and all are larger than half of it
  int64_t bytes = 0;          // still alive from past epochs, but for the first two; with kGrowing: all that is alive
  int64_t blocks = 0;
  int64_t epochs = 0;          // how many epochs that memory is from
  double bytes_per_epoch = 0;  // how fast it grows
  double confidence = 0;       // how sure it is that it grows at all, from 0 to 0.99
  bool material = true;        // false: even with all smaller findings the GPU lasts for more than 10,000 epochs
};

struct Report {
  std::string text;               // the verdicts in words, in several lines
  int64_t epochs = 0;             // how many have ended
  std::vector<Verdict> verdicts;  // those that matter come first; among these leaks, and then what grows fastest

  // Whether anything leaks, however little.
  bool has_leak() const {
    return std::any_of(verdicts.begin(), verdicts.end(),
                       [](const Verdict& verdict) { return verdict.kind == Verdict::Kind::kLeak; });
  }
};

// What leaked up to the latest epoch_end(). If it is not enabled, the text says so.
inline Report report() {
  const std::unique_ptr<frugal_report, void (*)(frugal_report*)> made(frugal_make_report(), &frugal_free_report);
  if (made == nullptr) return {std::string(frugal_last_error()) + "\n", 0, {}};
  Report report{frugal_report_text(made.get()), frugal_report_epochs(made.get()), {}};
  std::vector<frugal_finding> findings(static_cast<size_t>(frugal_report_findings(made.get(), nullptr, 0)));
  frugal_report_findings(made.get(), findings.data(), static_cast<int>(findings.size()));
  for (const frugal_finding& finding : findings) {
    report.verdicts.push_back({static_cast<Verdict::Kind>(finding.verdict), finding.gpu, finding.name,
                               finding.largest_block, finding.bytes, finding.blocks, finding.epochs,
                               finding.bytes_per_epoch, finding.confidence, finding.material != 0});
  }
  return report;
}

}  // namespace frugal_alloc

#endif  // FRUGAL_ALLOC_TORCH_H_
