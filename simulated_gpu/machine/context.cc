#include "simulated_gpu/machine/context.h"

namespace frugal::sim {

std::string Context::Name() const {
  const std::string gpu = "GPU " + std::to_string(gpu_);
  return is_green() ? "green context " + std::to_string(id_) + " of " + gpu : gpu;
}

Contexts::Contexts(int gpus, unsigned multiprocessors) {
  for (int gpu = 0; gpu < gpus; ++gpu) {
    primary_.push_back(std::make_unique<Context>(next_id_++, gpu, Context::Kind::kPrimary, multiprocessors));
  }
}

Context* Contexts::CreateGreen(int gpu, unsigned multiprocessors) {
  std::lock_guard lock(mutex_);
  return &green_.emplace_back(next_id_++, gpu, Context::Kind::kGreen, multiprocessors);
}

Error Contexts::DestroyGreen(Context& context) {
  if (!context.is_green() || context.destroyed_.exchange(true)) return Error::kInvalidContext;
  return Error::kSuccess;
}

Context* Contexts::Find(const void* address) const {
  for (const auto& context : primary_) {
    if (context.get() == address) return context.get();
  }
  std::lock_guard lock(mutex_);
  for (const Context& context : green_) {
    if (&context == address) return const_cast<Context*>(&context);
  }
  return nullptr;
}

}  // namespace frugal::sim
