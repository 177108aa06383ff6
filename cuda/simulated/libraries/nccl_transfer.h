// One collective, or one half of a pair's, as a rank carries it out: what it gives to others and takes from them.

#ifndef FRUGAL_CUDA_SIMULATED_LIBRARIES_NCCL_TRANSFER_H_
#define FRUGAL_CUDA_SIMULATED_LIBRARIES_NCCL_TRANSFER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cuda/simulated/libraries/nccl_exchange.h"
#include "cuda/simulated/libraries/nccl_reduction.h"
#include "cuda/simulated/libraries/nccl_types.h"

namespace frugal::sim::nccl {

// Goes on step by step, and never waits: a thread that has several takes turns.
class Transfer {
 public:
  // Transfers of one lane go one after the other, in the order of their calls.
  using Lane = std::pair<const Exchange*, int>;

  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  virtual ~Transfer() = default;

  // Does what can be done without another rank; whether that was anything.
  virtual bool Advance() = 0;
  virtual bool IsDone() const = 0;
  // It cannot go on before that rank does something.
  virtual bool WaitsFor(int rank) const = 0;
  virtual Lane lane() const = 0;

  // Not kSuccess: it has failed, and `problem` says why.
  Result result() const { return result_; }
  const std::string& problem() const { return problem_; }
  Exchange& exchange() const { return exchange_; }

 protected:
  explicit Transfer(Exchange& exchange) : exchange_(exchange) {}
  void Fail(Result result, std::string problem);
  // Writes, to a reader or to all, what is left of `size` bytes of which `done` are; reads likewise. Whether any byte
  // moved.
  bool WriteOn(int reader, const void* data, size_t size, size_t* done);
  bool ReadOn(int writer, Exchange::Track track, void* data, size_t size, size_t* done);

 private:
  Exchange& exchange_;
  Result result_ = kSuccess;
  std::string problem_;
};

// Goes before the data, so that ranks which do not call the same find out rather than read what was not meant.
struct TransferHeader {
  uint64_t kind = 0;
  uint64_t size = 0;
  bool operator==(const TransferHeader&) const = default;
};

// Each rank writes its contribution for all others, who read the section of it that they want.
class CollectiveTransfer final : public Transfer {
 public:
  // What a rank reads of what `contribution` bytes of another's, or its own, it is about; `size` 0: nothing.
  struct Section {
    size_t contribution = 0;
    size_t from = 0;
    size_t size = 0;
    void* target = nullptr;  // Without a reduction.
  };
  struct Plan {
    uint64_t kind = 0;              // Any number that is the same for all ranks.
    const void* data = nullptr;     // This rank's contribution.
    std::vector<Section> sections;  // By rank, its own among them.
    // Of all sections, into `target`; they are of one size then, or empty.
    std::optional<Reduction> reduction;
    void* target = nullptr;
  };

  CollectiveTransfer(Exchange& exchange, Plan plan);

  bool Advance() override;
  bool IsDone() const override { return is_done_; }
  bool WaitsFor(int rank) const override;
  Lane lane() const override { return {&exchange(), 0}; }

 private:
  struct Progress {
    TransferHeader header;
    size_t header_read = 0;
    size_t read = 0;      // Of the section.
    bool passed = false;  // The header and what is before the section.
  };

  void Begin();
  void KeepWhatWillBeOverwritten();
  bool WriteContribution();
  bool PassHeader(int rank);
  bool ReadSections();
  bool ReadAndReduce();
  size_t OwnContribution() const { return plan_.sections[exchange().rank()].contribution; }
  bool HasWritten() const;
  bool HasRead() const;
  void Finish();

  Plan plan_;
  std::vector<char> kept_;  // The contribution, if the result comes over it.
  bool has_begun_ = false;
  bool is_done_ = false;
  size_t header_written_ = 0;
  size_t written_ = 0;
  std::vector<Progress> progress_;  // By rank.
  size_t reduced_ = 0;
  std::vector<std::vector<char>> pieces_;  // By rank: what is to be reduced next.
};

class SendTransfer final : public Transfer {
 public:
  SendTransfer(Exchange& exchange, int peer, const void* data, size_t size);
  bool Advance() override;
  bool IsDone() const override { return written_ == size_ && header_written_ == sizeof(TransferHeader); }
  bool WaitsFor(int rank) const override { return rank == peer_; }
  Lane lane() const override { return {&exchange(), 1 + 2 * peer_}; }

 private:
  const int peer_;
  const void* const data_;
  const size_t size_;
  size_t header_written_ = 0;
  size_t written_ = 0;
};

class ReceiveTransfer final : public Transfer {
 public:
  ReceiveTransfer(Exchange& exchange, int peer, void* target, size_t size);
  bool Advance() override;
  bool IsDone() const override { return read_ == size_ && header_read_ == sizeof(TransferHeader); }
  bool WaitsFor(int rank) const override { return rank == peer_; }
  Lane lane() const override { return {&exchange(), 2 + 2 * peer_}; }

 private:
  const int peer_;
  void* const target_;
  const size_t size_;
  TransferHeader header_;
  size_t header_read_ = 0;
  size_t read_ = 0;
};

}  // namespace frugal::sim::nccl

#endif  // FRUGAL_CUDA_SIMULATED_LIBRARIES_NCCL_TRANSFER_H_
