// What part of the program allocations belong to, as the program itself says: a number, for whoever names sites.

#ifndef FRUGAL_ALLOCATOR_ALLOCATION_SITE_H_
#define FRUGAL_ALLOCATOR_ALLOCATION_SITE_H_

#include <cstdint>
#include <utility>

namespace frugal {

enum class SiteId : uint32_t {};

// Of what nobody named.
inline constexpr SiteId kNoSite{0};

// Of the calling thread. A thread-local variable rather than an argument of every allocation, which would cost
// instructions also where nobody asks for sites.
class CurrentSite {
 public:
  static SiteId Get() { return site_; }
  // Returns what it was.
  static SiteId Set(SiteId site) { return std::exchange(site_, site); }

 private:
  // Not inline: libraries that hide their symbols would each have one of their own.
  static constinit thread_local SiteId site_;
};

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_ALLOCATION_SITE_H_
