// Looks on while a history is played for the first time: memory over time, the way to its peak, one picture.

#ifndef FRUGAL_BINDINGS_REPLAY_WATCHER_H_
#define FRUGAL_BINDINGS_REPLAY_WATCHER_H_

#include <cstdint>

#include "bindings/replay/gpu.h"
#include "bindings/replay/request.h"

namespace frugal::replay {

// `end` - `begin`, of one counter each.
Costs Difference(const Costs& end, const Costs& begin);

class Watcher {
 public:
  // Writes to `result` as events come; all arguments outlive this.
  Watcher(const Request& request, const Gpu& gpu, Result& result);

  void Before(uint64_t event);
  void After(uint64_t event);
  // The pass has been played to its end.
  void Finish();

 private:
  void TakePicture();

  const Request& request_;
  const Gpu& gpu_;
  Result& result_;
  Costs steady_begin_ = {};
};

}  // namespace frugal::replay

#endif  // FRUGAL_BINDINGS_REPLAY_WATCHER_H_
