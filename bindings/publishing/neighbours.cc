#include "bindings/publishing/neighbours.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "bindings/publishing/abstract_socket.h"
#include "bindings/publishing/publisher.h"

namespace frugal {
namespace {

// Whoever makes more sockets of our names, or of other users, keeps nobody else from being asked in time.
constexpr size_t kMostNames = 1024;
constexpr size_t kMostAsked = 64;
constexpr int64_t kRestParts = 10;

bool IsNumber(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return absl::ascii_isdigit(c); });
}

// Of a row of /proc/net/unix, the name at which a process can be asked; "": none.
absl::string_view NameOf(absl::string_view row) {
  constexpr uint32_t kListens = 0x10000;
  const std::vector<absl::string_view> fields = absl::StrSplit(row, ' ', absl::SkipEmpty());
  uint32_t flags = 0;
  if (fields.size() != 8 || !absl::SimpleHexAtoi(fields[3], &flags) || (flags & kListens) == 0) return "";
  absl::string_view name = fields[7];
  if (!absl::ConsumePrefix(&name, "@")) return "";
  absl::string_view numbers = name;
  if (!absl::ConsumePrefix(&numbers, Publisher::kFamily) || !absl::ConsumePrefix(&numbers, Neighbours::kRoom))
    return "";
  const std::vector<absl::string_view> parts = absl::StrSplit(numbers, '/');
  return parts.size() == 2 && IsNumber(parts[0]) && IsNumber(parts[1]) ? name : "";
}

// A connection of its own, closed in the end.
class Connection {
 public:
  explicit Connection(int number) : number_(number) {}
  Connection(Connection&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Connection& operator=(Connection&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Connection() {
    if (number_ >= 0) close(number_);
  }
  int number() const { return number_; }

 private:
  int number_;
};

// Whether the request is on its way to a process of this user. Waits for nobody.
bool Send(const Outside& outside, const Connection& connection, const std::string& name, const std::string& request) {
  const SocketName address(name);
  return connect(connection.number(), address.get(), address.size) == 0 &&
         outside.user_of(connection.number()) == geteuid() &&
         send(connection.number(), request.data(), request.size(), MSG_DONTWAIT | MSG_NOSIGNAL) ==
             static_cast<ssize_t>(request.size());
}

}  // namespace

std::vector<std::string> Neighbours::ListFromKernel(const Outside& outside, absl::Duration deadline) {
  std::vector<std::string> names;
  std::ifstream table("/proc/net/unix");
  for (std::string row; names.size() < kMostNames && std::getline(table, row) && outside.now() < deadline;) {
    if (!absl::StrContains(row, Publisher::kFamily)) continue;
    if (const absl::string_view name = NameOf(row); !name.empty()) names.emplace_back(name);
  }
  return names;
}

bool Neighbours::Ask(absl::string_view gpu, int64_t wanted, absl::FunctionRef<int64_t()> free) {
  const std::string request = WriteRequest(gpu, wanted);
  const absl::Duration began = outside_.now();
  if (!is_wanted_.load(std::memory_order_relaxed) || request.empty()) return false;
  if (absl::ToInt64Nanoseconds(began) < rests_until_.load(std::memory_order_relaxed)) return false;
  const int64_t free_before = free();
  if (free_before >= wanted) return false;
  const absl::Duration deadline = began + kPatience;
  const std::string own_name = Publisher::NameOfThisProcess(kRoom);
  std::vector<Connection> asked;
  for (const std::string& name : list_(outside_, deadline)) {
    if (asked.size() >= kMostAsked || outside_.now() >= deadline) break;
    Connection connection(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (name != own_name && connection.number() >= 0 && Send(outside_, connection, name, request)) {
      asked.push_back(std::move(connection));
    }
  }
  std::vector<pollfd> open;
  for (const Connection& connection : asked) open.push_back({connection.number(), POLLIN, 0});
  while (!open.empty()) {
    const absl::Duration left = deadline - outside_.now();
    if (left <= absl::ZeroDuration()) break;
    outside_.poll(absl::MakeSpan(open), left);
    // Not before: one who gives all by himself is through then, and what is free is the same in each run.
    if (std::erase_if(open, [](const pollfd& one) { return one.revents != 0; }) > 0 && free() >= wanted) break;
  }
  if (free() <= free_before) {
    const absl::Duration ended = outside_.now();
    rests_until_.store(absl::ToInt64Nanoseconds(ended + kRestParts * (ended - began)), std::memory_order_relaxed);
  }
  return !asked.empty();
}

std::string WriteRequest(absl::string_view gpu, int64_t wanted) {
  if (gpu.empty() || wanted <= 0 || absl::StrContains(gpu, '\n')) return "";
  std::string line = absl::StrCat(wanted, " ", gpu, "\n");
  return line.size() <= kMostRequestBytes ? line : "";
}

Request ReadRequest(absl::string_view line) {
  Request request;
  if (!absl::ConsumeSuffix(&line, "\n")) return request;
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(' ', 1));
  int64_t wanted = 0;
  if (!IsNumber(parts.first) || !absl::SimpleAtoi(parts.first, &wanted) || parts.second.empty()) return request;
  return {{parts.second.data(), parts.second.size()}, wanted};
}

}  // namespace frugal
