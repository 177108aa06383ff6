// Objects whose addresses a program holds as handles. The address of one that is gone is given to a later one, as a
// driver does, so that a handle that was kept too long means another object in silence.

#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

namespace frugal::sim {

// Not thread-safe. Memory is never given back: that of an object that is gone can be asked about.
template <typename T>
class Handles {
 public:
  // kLastDestroyed: the next object takes the address of the one that went last. kOldest: the address of the one that
  // is gone longest, and not before `kept` are waiting, so that late uses are found.
  enum class Reuse { kLastDestroyed, kOldest };

  explicit Handles(Reuse reuse, size_t kept = 0) : reuse_(reuse), kept_(kept) {}
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;

  template <typename... Arguments>
  T* Create(Arguments&&... arguments) {
    std::optional<T>& place = TakePlace();
    T* object = &place.emplace(T{std::forward<Arguments>(arguments)...});
    gone_.erase(object);
    live_.emplace(object, &place);
    return object;
  }

  bool Contains(const T* object) const { return live_.contains(object); }

  // False if it is not here. `was` is what WhatWas() says of it from then on.
  bool Destroy(const T* object, std::string was) {
    const auto it = live_.find(object);
    if (it == live_.end()) return false;
    std::optional<T>* place = it->second;
    live_.erase(it);
    place->reset();
    free_.push_back(place);
    gone_.emplace(object, std::move(was));
    return true;
  }

  // Of an object that is gone, while nothing else has its address; else nullptr.
  const std::string* WhatWas(const void* object) const {
    const auto it = gone_.find(object);
    return it == gone_.end() ? nullptr : &it->second;
  }

  // Calls `visit` with each object, in no order.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (const auto& [object, place] : live_) visit(**place);
  }

 private:
  std::optional<T>& TakePlace() {
    if (free_.size() <= kept_) return places_.emplace_back();
    std::optional<T>* place = reuse_ == Reuse::kOldest ? free_.front() : free_.back();
    if (reuse_ == Reuse::kOldest) {
      free_.pop_front();
    } else {
      free_.pop_back();
    }
    return *place;
  }

  const Reuse reuse_;
  const size_t kept_;
  std::deque<std::optional<T>> places_;
  std::deque<std::optional<T>*> free_;
  std::unordered_map<const T*, std::optional<T>*> live_;
  std::unordered_map<const void*, std::string> gone_;
};

}  // namespace frugal::sim
