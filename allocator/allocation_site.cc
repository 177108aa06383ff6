#include "allocator/allocation_site.h"

namespace frugal {

constinit thread_local SiteId CurrentSite::site_ = kNoSite;

}  // namespace frugal
