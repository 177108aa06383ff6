#include "simulated_gpu/machine/unified_host.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "allocator/port/format_bytes.h"
#include "simulated_gpu/machine/setting_text.h"

namespace frugal::sim {
namespace {

// Without memory that is shared, in which the simulation keeps that of the GPU.
Bytes PageableOfThisProcess() {
  long long size = 0;
  long long resident = 0;
  long long shared = 0;
  const std::optional<std::string> text = WholeFile("/proc/self/statm");
  if (!text || std::sscanf(text->c_str(), "%lld %lld %lld", &size, &resident, &shared) != 3) return Bytes(0);
  return Bytes(static_cast<int64_t>(resident - shared) * sysconf(_SC_PAGESIZE));
}

std::string Kilobytes(const char* name, Bytes size) {
  char line[64];
  std::snprintf(line, sizeof(line), "%-16s%8lld kB\n", (std::string(name) + ":").c_str(),
                static_cast<long long>(std::max(size, Bytes(0)).count() / KiB(1).count()));
  return line;
}

}  // namespace

UnifiedHost::UnifiedHost(const Options& options, std::function<Bytes()> pageable)
    : options_(options), pageable_(pageable ? std::move(pageable) : PageableOfThisProcess) {}

Bytes UnifiedHost::Held() const {
  return options_.on ? options_.others + pageable_() + Bytes(pinned_.load()) : Bytes(0);
}

Bytes UnifiedHost::Free(Bytes available) const { return std::max(available - options_.cache, Bytes(0)); }

void UnifiedHost::NoteOverload(Bytes wanted, Bytes available) {
  ++overloads_;
  if (!listener_) return;
  listener_("the host is driven beyond its memory: " + FormatBytes(wanted) + " more are asked for, and " +
            FormatBytes(std::max(available, Bytes(0))) + " can be had; a real one swaps, hangs or kills programs here");
}

std::optional<std::string> UnifiedHost::File(std::string_view path, Bytes total, Bytes gpu) const {
  constexpr std::string_view kGroup = "/sys/fs/cgroup/memory.";
  if (path == "/proc/meminfo") return Meminfo(total, gpu);
  // Whatever groups the real machine has, it is another one.
  if (path == "/proc/self/cgroup") return "0::/\n";
  if (path.starts_with(kGroup)) return GroupFile(path.substr(kGroup.size()), gpu);
  return std::nullopt;
}

std::string UnifiedHost::Meminfo(Bytes total, Bytes gpu) const {
  const Bytes available = std::max(total - Held() - gpu, Bytes(0));
  const Bytes cache = std::min(options_.cache, available);
  const Bytes pageable = pageable_();
  return Kilobytes("MemTotal", total) + Kilobytes("MemFree", Free(available)) + Kilobytes("MemAvailable", available) +
         Kilobytes("Buffers", Bytes(0)) + Kilobytes("Cached", cache) + Kilobytes("SwapCached", Bytes(0)) +
         Kilobytes("Active", pageable) + Kilobytes("Inactive", cache) + Kilobytes("Active(anon)", pageable) +
         Kilobytes("Inactive(anon)", Bytes(0)) + Kilobytes("Active(file)", Bytes(0)) +
         Kilobytes("Inactive(file)", cache) + Kilobytes("SwapTotal", Bytes(0)) + Kilobytes("SwapFree", Bytes(0)) +
         Kilobytes("AnonPages", pageable) + Kilobytes("Shmem", Bytes(0)) + Kilobytes("Slab", Bytes(0)) +
         Kilobytes("SReclaimable", Bytes(0));
}

std::string UnifiedHost::GroupFile(std::string_view name, Bytes gpu) const {
  if (options_.group_limit >= kUnlimited) return "";
  if (name == "max") return std::to_string(options_.group_limit.count()) + "\n";
  // The driver pins on its own account, too.
  const Bytes current = pageable_() + (options_.group_counts_gpu ? gpu + Bytes(pinned_.load()) : Bytes(0));
  if (name == "current") return std::to_string(current.count()) + "\n";
  if (name == "stat") return "anon " + std::to_string(current.count()) + "\ninactive_file 0\nactive_file 0\n";
  return "";
}

}  // namespace frugal::sim
