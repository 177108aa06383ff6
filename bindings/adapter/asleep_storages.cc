#include "bindings/adapter/asleep_storages.h"

#include <utility>

#include "bindings/adapter/torch_compat.h"

namespace frugal {

#if FRUGAL_TORCH_MINOR < 12
// Torch knows the way back from 2.12 on. Before, what is private can be named where a template is instantiated.
bool& Throws(c10::StorageImpl& storage);
template <bool c10::StorageImpl::*kMember>
struct Reach {
  friend bool& Throws(c10::StorageImpl& storage) { return storage.*kMember; }
};
template struct Reach<&c10::StorageImpl::throw_on_immutable_data_ptr_>;
#endif

namespace {

void Clear(c10::StorageImpl& storage) {
#if FRUGAL_TORCH_MINOR >= 12
  storage.clear_data_ptr_access_error_msg_();
#else
  Throws(storage) = false;
  // Which makes it look again at what it is to check.
  c10::DataPtr data = std::move(storage._mutable_data_ptr_no_checks());
  storage.set_data_ptr_noswap(std::move(data));
#endif
}

}  // namespace

void AsleepStorages::Mark(c10::StorageImpl& storage, std::string message) {
  storage.release_data_and_set_meta_custom_data_ptr_error_msg_(std::move(message));
  marked_.emplace_back(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(&storage));
}

std::vector<c10::intrusive_ptr<c10::StorageImpl>> AsleepStorages::ClearIf(
    absl::FunctionRef<bool(const void* data)> is_awake) {
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> still;
  std::vector<c10::intrusive_ptr<c10::StorageImpl>> living;
  for (c10::weak_intrusive_ptr<c10::StorageImpl>& marked : marked_) {
    living.push_back(marked.lock());
    c10::StorageImpl* const storage = living.back().get();
    if (storage == nullptr) continue;
    if (is_awake(storage->_mutable_data_ptr_no_checks().get())) {
      Clear(*storage);
    } else {
      still.push_back(std::move(marked));
    }
  }
  marked_ = std::move(still);
  return living;
}

}  // namespace frugal
