#include "cuda/stream_lives.h"

namespace frugal {

Stream StreamLives::Name(Stream stream) {
  stream.life = 0;
  const unsigned long long id = IdOf(stream);
  absl::MutexLock lock(&mutex_);
  Life& life = latest_.try_emplace(stream, Life{id, 1}).first->second;
  // 0 is for streams that last. What has a number again after 65,535 streams is long forgotten.
  if (id != 0 && life.id != 0 && id != life.id && ++life.number == 0) life.number = 1;
  if (id != 0) life.id = id;
  stream.life = life.number;
  return stream;
}

absl::Status StreamLives::Check(Stream stream) {
  if (stream.lasts()) return absl::OkStatus();
  const uint64_t number = stream.life;
  stream.life = 0;
  Life latest{0, static_cast<uint16_t>(number)};
  {
    absl::MutexLock lock(&mutex_);
    if (const auto known = latest_.find(stream); known != latest_.end()) latest = known->second;
  }
  const bool lives = latest.number == number && (latest.id == 0 || IdOf(stream) == latest.id);
  return lives ? absl::OkStatus() : absl::NotFoundError("the stream has been destroyed");
}

unsigned long long StreamLives::IdOf(Stream stream) const {
  if (api_.StreamGetId == nullptr) return 0;
  // A thread that has none yet cannot ask.
  CUcontext current = nullptr;
  const bool has_context = api_.CtxGetCurrent(&current) == CUDA_SUCCESS && current != nullptr;
  if (!has_context && api_.CtxPushCurrent(context_) != CUDA_SUCCESS) return 0;
  auto handle = reinterpret_cast<CUstream>(stream.id);
  if (handle == CU_STREAM_PER_THREAD) handle = CU_STREAM_LEGACY;  // As DriverDevice.
  unsigned long long id = 0;
  if (api_.StreamGetId(handle, &id) != CUDA_SUCCESS) id = 0;
  if (!has_context) api_.CtxPopCurrent(&current);
  return id;
}

}  // namespace frugal
