// Storages whose memory sleeps: whoever asks one for its data is told.

#pragma once

#include <c10/core/StorageImpl.h>

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"

namespace frugal {

// Not thread-safe. It keeps no memory of a tensor alive.
class AsleepStorages {
 public:
  // Whoever asks the storage for its data gets a c10::Error with this message.
  void Mark(c10::StorageImpl& storage, std::string message);
  // Those whose data is so have it again. Returns all that still live, which may end with what is returned: to destroy
  // that may take Python's lock.
  [[nodiscard]] std::vector<c10::intrusive_ptr<c10::StorageImpl>> ClearIf(
      absl::FunctionRef<bool(const void* data)> is_awake);

 private:
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> marked_;
};

}  // namespace frugal
