// A communicator: one rank's place among those that communicate, how it waits for them, and what it says of errors.

#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "simulated_gpu/libraries/nccl_buffers.h"
#include "simulated_gpu/libraries/nccl_exchange.h"
#include "simulated_gpu/libraries/nccl_reduction.h"
#include "simulated_gpu/libraries/nccl_types.h"

namespace frugal::sim::nccl {

// Notes, for all threads, what ncclGetLastError() says, and returns `result`.
Result Explain(Result result, const std::string& problem);
// Never null, and valid for ever.
const char* LastError();

// One stretch of time without anything new from other ranks.
class Waiting {
 public:
  // As long as PyTorch waits for a rank by default (10 minutes), and some more: its own answer is to come first.
  static constexpr std::chrono::minutes kMost{15};
  // Between two looks at whether the others are alive.
  static constexpr std::chrono::milliseconds kBetweenLooks{100};

  // Waits for something to happen in the exchange, up to `most`. Not kSuccess, explained: a rank that is `needed` has
  // been gone for longer than this look, so that whatever it posted last has been seen, or the time is over.
  Result On(Exchange& exchange, uint32_t seen, const std::function<bool(int rank)>& needed,
            std::chrono::milliseconds most = kBetweenLooks);
  // Something has happened.
  void StartAnew() { *this = Waiting(); }

 private:
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point looked_ = began_;
  int gone_ = -1;  // The rank that was found gone at the look before.
};

// Thread-safe.
class Communicator {
 public:
  struct Place {
    std::string name;  // Of the exchange.
    int rank = 0;
    int size = 1;
    int gpu = 0;
  };

  // Joins the others without waiting for them. With `buffers` it takes no memory of its own. nullptr, explained, if the
  // exchange cannot be had.
  static std::shared_ptr<Communicator> Join(const Place& place, const Config* config,
                                            std::shared_ptr<Buffers> buffers = nullptr);
  // The one that a program knows by this handle; nullptr if there is none.
  static std::shared_ptr<Communicator> Of(const void* handle);

  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Until all ranks have joined.
  Result WaitForEverybody();
  // Its handle means nothing from here on, and whoever waits in it stops.
  void End();
  bool has_ended() const { return has_ended_; }

  int rank() const { return exchange_->rank(); }
  int size() const { return exchange_->size(); }
  int gpu() const { return place_.gpu; }
  Exchange& exchange() { return *exchange_; }
  const std::shared_ptr<Buffers>& buffers() const { return buffers_; }
  // Held while this rank's transfers go on, so that they are in one order.
  std::mutex& transfers() { return transfers_; }

  // The name of the next communicator that is made of this one: the same in all of its ranks.
  std::string NextName();

  // An operator of the program's own, that multiplies by `factor` and adds up.
  int AddOperator(double factor);
  void RemoveOperator(int op);
  // Nothing if there is no such operator.
  std::optional<Reduction> ReductionOf(int op, int type) const;

  // What ncclCommGetAsyncError() answers.
  Result state() const { return state_; }
  void set_state(Result state) { state_ = state; }

 private:
  Communicator(const Place& place, std::unique_ptr<Exchange> exchange, std::shared_ptr<Buffers> buffers)
      : place_(place), exchange_(std::move(exchange)), buffers_(std::move(buffers)) {}

  const Place place_;
  const std::unique_ptr<Exchange> exchange_;
  const std::shared_ptr<Buffers> buffers_;
  std::mutex transfers_;
  std::atomic<bool> has_ended_{false};
  std::atomic<Result> state_{kSuccess};
  std::atomic<int> children_{0};
  mutable std::mutex mutex_;
  std::map<int, double> factors_;  // Of the program's own operators.
  int next_operator_ = kFirstOwnOperator;
};

}  // namespace frugal::sim::nccl
