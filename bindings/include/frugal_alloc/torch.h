// frugal_alloc for C++ programs on LibTorch: the library frugal_alloc_torch<version>.so in PyTorch's place.
//
//   #include <frugal_alloc/torch.h>
//
//   if (frugal_alloc::Status status = frugal_alloc::install(); !status) std::cerr << status.message() << '\n';
//   for (...) {
//     ...                          // an epoch
//     frugal_alloc::epoch_end();
//   }
//   std::cout << frugal_alloc::report().text;
//
// CMake: find_package(frugal_alloc REQUIRED) and target_link_libraries(... frugal_alloc::torch); Bazel: //:torch.
// docs/cpp.md has the details, examples/trainer a whole program. This header needs C++17, and nothing but the standard
// library. All functions may be called from any thread.

#ifndef FRUGAL_ALLOC_TORCH_H_
#define FRUGAL_ALLOC_TORCH_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// The library's C functions that are used below; it has no others for C++ programs.
extern "C" {
const char* frugal_last_error(void);
int frugal_enable_with(const char* settings);
int frugal_disable(void);
int frugal_is_enabled(void);
const char* frugal_unfollowed_settings(const char* settings);
int64_t frugal_trim(void);
int frugal_keep_in_place(const void* address, int64_t bytes, int keep);
const char* frugal_stat_names(void);
int frugal_stats(int device, int64_t* figures, int capacity);

int frugal_phase(const char* name);
int frugal_set_phase(int phase);
int frugal_expect_growth(int phase);
int frugal_epoch_end(void);
struct frugal_finding {
  int verdict;
  int gpu;
  int site;
  const char* name;
  int64_t largest_block;
  int64_t bytes;
  int64_t blocks;
  int64_t epochs;
  double bytes_per_epoch;
  double confidence;
  int material;
};
struct frugal_report;
struct frugal_report* frugal_make_report(void);
void frugal_free_report(struct frugal_report* report);
const char* frugal_report_text(const struct frugal_report* report);
int64_t frugal_report_epochs(const struct frugal_report* report);
int frugal_report_findings(const struct frugal_report* report, struct frugal_finding* findings, int capacity);
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

// What may be chosen, written as in FRUGAL_ALLOC_CONF (docs/tuning.md). What is "" stays as FRUGAL_ALLOC_CONF says.
struct Options {
  std::string memory_limit = {};    // the most to hold of each GPU: "20GiB", "80%", "off"
  std::string idle_release = {};    // memory that was free for so long goes back to the driver: "30s", "off"
  std::string remap = {};           // "off": no physical memory moves once it is mapped, for those who register it
  std::string driver_reserve = {};  // memory of each GPU that is left to the driver: "1GiB", "off"
  std::string host_reserve = {};    // memory that is left to the host, where a GPU's is the host's: "8GiB", "off"
  std::string driver_costs = {};    // a file of what this machine's driver takes, as `doctor --gpu` writes it
};

namespace internal {

inline std::string ToText(const Options& options) {
  std::string text;
  const auto append = [&text](const char* key, const std::string& value) {
    if (!value.empty()) text += std::string(text.empty() ? "" : ",") + key + ":" + value;
  };
  append("memory_limit", options.memory_limit);
  append("idle_release", options.idle_release);
  append("remap", options.remap);
  append("driver_reserve", options.driver_reserve);
  append("host_reserve", options.host_reserve);
  append("driver_costs", options.driver_costs);
  return text;
}

inline void TellOfUnfollowedSettings() {
  const char* const text = frugal_unfollowed_settings(nullptr);
  if (*text != '\0') std::fprintf(stderr, "%s\n", text);
}

}  // namespace internal

// New CUDA memory of this process is frugal_alloc's from now on. May be called before CUDA has started (which it does
// not start) or at any time later, and again; on failure PyTorch goes on as before. Where FRUGAL_ALLOC=0 is set it does
// nothing and is OK. Settings of PYTORCH_ALLOC_CONF that do not hold for our memory are named on stderr, once.
inline Status install(const Options& options = {}) {
  if (frugal_enable_with(internal::ToText(options).c_str()) != 0) return Status(frugal_last_error());
  if (frugal_is_enabled() != 0) internal::TellOfUnfollowedSettings();
  return Status();
}

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

// The physical memory behind [address, address + bytes) stays where it is from now on, in whole handles of 2 MiB or
// more, also after a tensor there has been freed, until let_move(): for memory that is registered with a network card,
// NCCL or another process. Memory that is not frugal_alloc's never moves.
inline Status keep_in_place(const void* address, int64_t bytes) {
  return frugal_keep_in_place(address, bytes, 1) == 0 ? Status() : Status(frugal_last_error());
}
inline Status let_move(const void* address, int64_t bytes) {
  return frugal_keep_in_place(address, bytes, 0) == 0 ? Status() : Status(frugal_last_error());
}

// What frugal_alloc holds of one GPU and has done there since it was installed; sizes in bytes. peak_*: the highest
// since then, or since PyTorch's peaks were reset.
struct Stats {
  int64_t allocated_bytes = 0;  // in tensors, rounded up to 512 bytes each
  int64_t peak_allocated_bytes = 0;
  int64_t requested_bytes = 0;  // in tensors, as they were asked for
  int64_t peak_requested_bytes = 0;
  int64_t active_bytes = 0;  // in tensors, or freed while a stream may still use them
  int64_t peak_active_bytes = 0;
  int64_t reserved_bytes = 0;  // physical memory held
  int64_t peak_reserved_bytes = 0;
  int64_t blocks = 0;  // tensors' blocks that are handed out now
  int64_t allocations = 0;
  int64_t frees = 0;
  int64_t stitches = 0;  // times that free handles were joined into a block instead of taking more memory
  int64_t stitched_bytes = 0;
  int64_t retries = 0;  // times that memory had to be given back before a request could be served
  int64_t out_of_memory_errors = 0;
};

// All 0 for a GPU that nothing was allocated on, and where nothing was installed.
inline Stats stats(int gpu = 0) {
  struct Figure {
    const char* name;
    int64_t Stats::*member;
  };
  static constexpr Figure kFigures[] = {
      {"allocated_bytes", &Stats::allocated_bytes},
      {"peak_allocated_bytes", &Stats::peak_allocated_bytes},
      {"requested_bytes", &Stats::requested_bytes},
      {"peak_requested_bytes", &Stats::peak_requested_bytes},
      {"active_bytes", &Stats::active_bytes},
      {"peak_active_bytes", &Stats::peak_active_bytes},
      {"reserved_bytes", &Stats::reserved_bytes},
      {"peak_reserved_bytes", &Stats::peak_reserved_bytes},
      {"blocks", &Stats::blocks},
      {"allocations", &Stats::allocations},
      {"frees", &Stats::frees},
      {"stitches", &Stats::stitches},
      {"stitched_bytes", &Stats::stitched_bytes},
      {"retries", &Stats::retries},
      {"out_of_memory_errors", &Stats::out_of_memory_errors},
  };
  Stats stats;
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

// --- Leaks.

// Ends an epoch: whatever should be gone by then (the last batch, its loss) had better be. Does nothing before
// install().
inline void epoch_end() { static_cast<void>(frugal_epoch_end()); }

// What this thread allocates while this lasts belongs to the phase that it names; scopes may be
// nested. What the backward pass allocates on PyTorch's own threads belongs to no phase.
//
//   frugal_alloc::Phase scope("evaluation");
class [[nodiscard]] Phase {
 public:
  explicit Phase(const char* name) : outer_(frugal_set_phase(frugal_phase(name))) {}
  ~Phase() { frugal_set_phase(outer_); }
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;

 private:
  int outer_;
};

// The phase of this name is meant to keep more from epoch to epoch, as a cache does: no report names it.
inline void expect_growth(const char* name) { static_cast<void>(frugal_expect_growth(frugal_phase(name))); }

// Blocks of one phase of the program and of one size class, of which every epoch leaves some behind.
struct Finding {
  // kGrowing: nothing is left behind, but what is replaced is replaced by something larger.
  enum class Verdict { kSuspect = 1, kLeak = 2, kGrowing = 3 };
  Verdict verdict = Verdict::kSuspect;
  int gpu = 0;
  std::string site;           // the scope's name; "" outside of all
  int64_t largest_block = 0;  // the blocks have more than half of these bytes, and up to these
  int64_t bytes = 0;          // kept from past epochs, without those of the first two
  int64_t blocks = 0;
  int64_t epochs = 0;          // that they are from
  double bytes_per_epoch = 0;  // by which the phase grows
  double confidence = 0;       // that it grows at all, from 0 to .99
  // Else the GPU would last for more than 10,000 epochs, all smaller findings included.
  bool material = true;
};

struct Report {
  std::string text;  // several lines for people
  int64_t epochs = 0;
  std::vector<Finding> findings;  // the material ones first; leaks, then by the rate

  // However small.
  bool has_leak() const {
    return std::any_of(findings.begin(), findings.end(),
                       [](const Finding& finding) { return finding.verdict == Finding::Verdict::kLeak; });
  }
};

// As of the latest epoch_end().
inline Report report() {
  const std::unique_ptr<frugal_report, void (*)(frugal_report*)> made(frugal_make_report(), &frugal_free_report);
  if (made == nullptr) return {std::string(frugal_last_error()) + "\n", 0, {}};
  Report report{frugal_report_text(made.get()), frugal_report_epochs(made.get()), {}};
  std::vector<frugal_finding> findings(static_cast<size_t>(frugal_report_findings(made.get(), nullptr, 0)));
  frugal_report_findings(made.get(), findings.data(), static_cast<int>(findings.size()));
  for (const frugal_finding& finding : findings) {
    report.findings.push_back({static_cast<Finding::Verdict>(finding.verdict), finding.gpu, finding.name,
                               finding.largest_block, finding.bytes, finding.blocks, finding.epochs,
                               finding.bytes_per_epoch, finding.confidence, finding.material != 0});
  }
  return report;
}

}  // namespace frugal_alloc

#endif  // FRUGAL_ALLOC_TORCH_H_
