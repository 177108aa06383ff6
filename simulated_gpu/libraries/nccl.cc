// The stand-in for NCCL: see stand_in.h. A communicator's ranks are processes of one machine, or threads, or one
// thread. What each function does is NCCL's documentation's; what this leaves out is in docs/simulated_gpu_inside.md.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "simulated_gpu/libraries/nccl_call.h"
#include "simulated_gpu/libraries/nccl_communicator.h"
#include "simulated_gpu/libraries/nccl_gpu.h"
#include "simulated_gpu/libraries/nccl_host.h"
#include "simulated_gpu/libraries/nccl_reduction.h"
#include "simulated_gpu/libraries/nccl_types.h"
#include "simulated_gpu/libraries/stand_in.h"

namespace frugal::sim {
namespace {

using nccl::Call;
using nccl::Communicator;
using nccl::Config;
using nccl::Exchange;
using nccl::Explain;
using nccl::Group;
using nccl::kInvalidArgument;
using nccl::kInvalidUsage;
using nccl::kSuccess;
using nccl::Result;
using nccl::UniqueId;

using Kind = Call::Kind;

// ncclComm_t
using Handle = void*;

Result Invalid(const char* function, const char* what) {
  return Explain(kInvalidArgument, std::string(function) + ": " + what);
}

// What stands in an id after this is the name of the exchange.
constexpr char kOurs[] = "frugal_nccl:";

std::string NameIn(const UniqueId& id) {
  const std::string text(id.internal, strnlen(id.internal, sizeof(id.internal)));
  return text.starts_with(kOurs) ? text.substr(sizeof(kOurs) - 1) : "";
}

void PutName(const std::string& name, UniqueId* id) {
  *id = {};
  const std::string text = kOurs + name;
  std::memcpy(id->internal, text.data(), std::min(text.size(), sizeof(id->internal) - 1));
}

Result JoinAs(const Communicator::Place& place, const Config* config, std::shared_ptr<nccl::Buffers> buffers,
              Handle* handle) {
  std::shared_ptr<Communicator> joined = Communicator::Join(place, config, std::move(buffers));
  if (joined == nullptr) return nccl::kSystemError;
  *handle = joined.get();
  return Group::OfThisThread().Add(std::move(joined));
}

Result InitializeRank(Handle* handle, int size, const UniqueId& id, int rank, const Config* config) {
  constexpr char kName[] = "ncclCommInitRank";
  if (handle == nullptr) return Invalid(kName, "there is nowhere to put the communicator");
  if (size < 1 || size > Exchange::kMostRanks || rank < 0 || rank >= size)
    return Invalid(kName, "there is no such rank");
  const std::string name = NameIn(id);
  if (name.empty()) return Invalid(kName, "the id is not of ncclGetUniqueId");
  return JoinAs({name, rank, size, nccl::CurrentGpu()}, config, nullptr, handle);
}

bool SharesResources(const Config* config) {
  return config != nullptr && config->size >= sizeof(Config) && config->split_share == 1;
}

// A communicator of some of the parent's ranks, by their number there and in the order of the new one.
Result InitializeChild(Communicator& parent, const std::string& name, const std::vector<int>& members,
                       const Config* config, Handle* handle) {
  Communicator::Place place{name, 0, static_cast<int>(members.size()), parent.gpu()};
  while (members[place.rank] != parent.rank()) ++place.rank;
  return JoinAs(place, config, SharesResources(config) ? parent.buffers() : nullptr, handle);
}

// `call` has all but its communicator and its reduction.
Result Communicate(Call call, Handle handle, int op = nccl::kSum) {
  const std::shared_ptr<Communicator> communicator = Communicator::Of(handle);
  if (communicator == nullptr) return Invalid(call.name(), "there is no such communicator");
  call.communicator = communicator;
  if (nccl::SizeOf(call.type) == 0) return Invalid(call.name(), "there is no such type");
  if (call.peer < 0 || call.peer >= communicator->size()) return Invalid(call.name(), "there is no such rank");
  if (communicator->state() != kSuccess) return communicator->state();
  if (call.Reduces()) {
    const std::optional<nccl::Reduction> reduction = communicator->ReductionOf(op, call.type);
    if (!reduction) return Invalid(call.name(), "there is no such reduction");
    call.reduction = *reduction;
    if (!nccl::CanReduce(call.reduction)) {
      ReportUnsupported("a reduction of 8-bit floating-point numbers");
      // Memory and order are the same; the values are one rank's.
      call.kind = call.GivesParts() ? Kind::kScatter : Kind::kBroadcast;
      call.peer = 0;
    }
  }
  return Group::OfThisThread().Add(std::move(call));
}

// With the communicator of the handle.
template <typename Use>
Result With(const char* function, Handle handle, Use use) {
  const std::shared_ptr<Communicator> communicator = Communicator::Of(handle);
  return communicator == nullptr ? Invalid(function, "there is no such communicator") : use(*communicator);
}

template <typename Value>
Result Answer(const char* function, Handle handle, Value (Communicator::*ask)() const, Value* answer) {
  return With(function, handle, [&](const Communicator& communicator) {
    *answer = (communicator.*ask)();
    return kSuccess;
  });
}

}  // namespace

// --- Communicators.

FRUGAL_STAND_IN int ncclGetVersion(int* version) {
  if (version == nullptr) return kInvalidArgument;
  *version = nccl::Version();
  return kSuccess;
}

FRUGAL_STAND_IN int ncclGetUniqueId(UniqueId* id) {
  if (id == nullptr) return kInvalidArgument;
  Exchange::RemoveAbandoned();
  PutName(Exchange::NewName(), id);
  return kSuccess;
}

FRUGAL_STAND_IN int ncclCommInitRank(Handle* handle, int size, UniqueId id, int rank) {
  return InitializeRank(handle, size, id, rank, nullptr);
}

FRUGAL_STAND_IN int ncclCommInitRankConfig(Handle* handle, int size, UniqueId id, int rank, const Config* config) {
  return InitializeRank(handle, size, id, rank, config);
}

FRUGAL_STAND_IN int ncclCommInitRankScalable(Handle* handle, int size, int rank, int ids, const UniqueId* id,
                                             const Config* config) {
  if (ids < 1 || id == nullptr) return Invalid("ncclCommInitRankScalable", "there is no id");
  return InitializeRank(handle, size, *id, rank, config);
}

FRUGAL_STAND_IN int ncclCommInitAll(Handle* handles, int size, const int* gpus) {
  if (handles == nullptr || size < 1) return Invalid("ncclCommInitAll", "there is no rank");
  const std::string name = Exchange::NewName();
  Group& group = Group::OfThisThread();
  group.Start();
  Result result = kSuccess;
  for (int rank = 0; rank < size && result == kSuccess; ++rank) {
    result = JoinAs({name, rank, size, gpus == nullptr ? rank : gpus[rank]}, nullptr, nullptr, &handles[rank]);
  }
  const Result joined = group.End();
  return result == kSuccess ? joined : result;
}

FRUGAL_STAND_IN int ncclCommSplit(Handle handle, int color, int key, Handle* made, const Config* config) {
  return With(__func__, handle, [&](Communicator& parent) -> Result {
    if (made == nullptr) return Invalid("ncclCommSplit", "there is nowhere to put the communicator");
    struct Choice {
      int color;
      int key;
    };
    const Choice mine{color, key};
    std::vector<Choice> choices(parent.size());
    nccl::FinishLateWork();
    Call call{Kind::kAllGather, &mine, choices.data(), sizeof(Choice), nccl::kInt8};
    call.communicator = Communicator::Of(handle);
    if (const Result result = nccl::MoveData({call}); result != kSuccess) return result;
    const std::string name = parent.NextName() + "-" + std::to_string(color);
    *made = nullptr;
    if (color < 0) return kSuccess;
    std::vector<int> members;
    for (int rank = 0; rank < parent.size(); ++rank) {
      if (choices[rank].color == color) members.push_back(rank);
    }
    std::stable_sort(members.begin(), members.end(),
                     [&](int left, int right) { return choices[left].key < choices[right].key; });
    return InitializeChild(parent, name, members, config, made);
  });
}

FRUGAL_STAND_IN int ncclCommShrink(Handle handle, const int* excluded, int count, Handle* made, const Config* config,
                                   int) {
  return With(__func__, handle, [&](Communicator& parent) -> Result {
    std::vector<int> members;
    for (int rank = 0; rank < parent.size(); ++rank) {
      if (std::find(excluded, excluded + count, rank) == excluded + count) members.push_back(rank);
    }
    if (made == nullptr || std::find(members.begin(), members.end(), parent.rank()) == members.end()) {
      return Invalid("ncclCommShrink", "this rank is not among those that stay");
    }
    return InitializeChild(parent, parent.NextName() + "-shrunk", members, config, made);
  });
}

FRUGAL_STAND_IN int ncclCommFinalize(Handle handle) {
  return With(__func__, handle, [](Communicator&) { return kSuccess; });
}
FRUGAL_STAND_IN int ncclCommAbort(Handle handle) {
  if (handle == nullptr) return kSuccess;
  return With(__func__, handle, [](Communicator& communicator) {
    communicator.End();
    return kSuccess;
  });
}
FRUGAL_STAND_IN int ncclCommDestroy(Handle handle) { return ncclCommAbort(handle); }

FRUGAL_STAND_IN int ncclCommGetAsyncError(Handle handle, Result* error) {
  return Answer(__func__, handle, &Communicator::state, error);
}
FRUGAL_STAND_IN int ncclCommCount(Handle handle, int* count) {
  return Answer(__func__, handle, &Communicator::size, count);
}
FRUGAL_STAND_IN int ncclCommCuDevice(Handle handle, int* gpu) {
  return Answer(__func__, handle, &Communicator::gpu, gpu);
}
FRUGAL_STAND_IN int ncclCommUserRank(Handle handle, int* rank) {
  return Answer(__func__, handle, &Communicator::rank, rank);
}

// ncclCommMemStat_t: what could be suspended, whether it is, what cannot be, and all.
FRUGAL_STAND_IN int ncclCommMemStats(Handle handle, int what, uint64_t* value) {
  return With(__func__, handle, [&](const Communicator& communicator) {
    constexpr int kPersistent = 2;
    constexpr int kTotal = 3;
    const bool is_taken = what == kPersistent || what == kTotal;
    *value = is_taken ? static_cast<uint64_t>(communicator.buffers()->taken()) : 0;
    return kSuccess;
  });
}

FRUGAL_STAND_IN const char* ncclGetLastError(Handle) { return nccl::LastError(); }

FRUGAL_STAND_IN const char* ncclGetErrorString(int result) {
  constexpr const char* kTexts[] = {"no error",
                                    "unhandled cuda error (simulated GPU)",
                                    "unhandled system error (simulated GPU)",
                                    "internal error (simulated GPU)",
                                    "invalid argument (simulated GPU)",
                                    "invalid usage (simulated GPU)",
                                    "remote process exited or there was a network error (simulated GPU)"};
  return result >= 0 && result <= nccl::kRemoteError ? kTexts[result] : "unknown result code";
}

// --- Memory. What is registered works as it would without.

FRUGAL_STAND_IN int ncclMemAlloc(void** memory, size_t size) {
  if (memory == nullptr) return kInvalidArgument;
  return nccl::Allocate(memory, size) ? kSuccess : Explain(nccl::kUnhandledCudaError, "Cuda failure 2 'out of memory'");
}

FRUGAL_STAND_IN int ncclMemFree(void* memory) {
  return nccl::Free(memory) ? kSuccess : Explain(nccl::kUnhandledCudaError, "Cuda failure 1 'invalid argument'");
}

FRUGAL_STAND_IN int ncclCommRegister(Handle communicator, void* memory, size_t, void** handle) {
  *handle = memory;
  return With(__func__, communicator, [](Communicator&) { return kSuccess; });
}
FRUGAL_STAND_IN int ncclCommWindowRegister(Handle communicator, void* memory, size_t size, void** window, int) {
  return ncclCommRegister(communicator, memory, size, window);
}
FRUGAL_STAND_IN int ncclWinGetUserPtr(Handle, void* window, void** memory) {
  *memory = window;
  return kSuccess;
}

// --- Groups.

FRUGAL_STAND_IN int ncclGroupStart() {
  Group::OfThisThread().Start();
  return kSuccess;
}
FRUGAL_STAND_IN int ncclGroupEnd() { return Group::OfThisThread().End(); }
FRUGAL_STAND_IN int ncclGroupSimulateEnd(nccl::SimulationInfo* info) {
  if (info != nullptr) info->estimated_time = 0;
  return Group::OfThisThread().End(/*runs=*/false);
}

// --- Operators of a program's own.

FRUGAL_STAND_IN int ncclRedOpCreatePreMulSum(int* op, void* factor, int type, int, Handle handle) {
  return With(__func__, handle, [&](Communicator& communicator) -> Result {
    if (op == nullptr || factor == nullptr || nccl::SizeOf(type) == 0) {
      return Invalid("ncclRedOpCreatePreMulSum", "there is no factor");
    }
    *op = communicator.AddOperator(nccl::ToDouble(type, factor));
    return kSuccess;
  });
}
FRUGAL_STAND_IN int ncclRedOpDestroy(int op, Handle handle) {
  return With(__func__, handle, [&](Communicator& communicator) {
    communicator.RemoveOperator(op);
    return kSuccess;
  });
}

// --- Communication.

FRUGAL_STAND_IN int ncclAllReduce(const void* send, void* receive, size_t count, int type, int op, Handle handle,
                                  Stream stream) {
  return Communicate({Kind::kAllReduce, send, receive, count, type, stream}, handle, op);
}
FRUGAL_STAND_IN int ncclReduce(const void* send, void* receive, size_t count, int type, int op, int root, Handle handle,
                               Stream stream) {
  return Communicate({Kind::kReduce, send, receive, count, type, stream, root}, handle, op);
}
FRUGAL_STAND_IN int ncclReduceScatter(const void* send, void* receive, size_t count, int type, int op, Handle handle,
                                      Stream stream) {
  return Communicate({Kind::kReduceScatter, send, receive, count, type, stream}, handle, op);
}
FRUGAL_STAND_IN int ncclBroadcast(const void* send, void* receive, size_t count, int type, int root, Handle handle,
                                  Stream stream) {
  return Communicate({Kind::kBroadcast, send, receive, count, type, stream, root}, handle);
}
FRUGAL_STAND_IN int ncclBcast(void* memory, size_t count, int type, int root, Handle handle, Stream stream) {
  return Communicate({Kind::kBroadcast, memory, memory, count, type, stream, root}, handle);
}
FRUGAL_STAND_IN int ncclAllGather(const void* send, void* receive, size_t count, int type, Handle handle,
                                  Stream stream) {
  return Communicate({Kind::kAllGather, send, receive, count, type, stream}, handle);
}
FRUGAL_STAND_IN int ncclAlltoAll(const void* send, void* receive, size_t count, int type, Handle handle,
                                 Stream stream) {
  return Communicate({Kind::kAllToAll, send, receive, count, type, stream}, handle);
}
FRUGAL_STAND_IN int ncclGather(const void* send, void* receive, size_t count, int type, int root, Handle handle,
                               Stream stream) {
  return Communicate({Kind::kGather, send, receive, count, type, stream, root}, handle);
}
FRUGAL_STAND_IN int ncclScatter(const void* send, void* receive, size_t count, int type, int root, Handle handle,
                                Stream stream) {
  return Communicate({Kind::kScatter, send, receive, count, type, stream, root}, handle);
}
FRUGAL_STAND_IN int ncclSend(const void* send, size_t count, int type, int peer, Handle handle, Stream stream) {
  return Communicate({Kind::kSend, send, nullptr, count, type, stream, peer}, handle);
}
FRUGAL_STAND_IN int ncclRecv(void* receive, size_t count, int type, int peer, Handle handle, Stream stream) {
  return Communicate({Kind::kReceive, nullptr, receive, count, type, stream, peer}, handle);
}

// --- Beyond NCCL: what graphs have captured, for simulated_gpu/values/collectives.py.

FRUGAL_STAND_IN int ncclSimulatedCaptures() { return nccl::CountCaptured(); }
FRUGAL_STAND_IN void ncclSimulatedReplay(int number) { nccl::ReplayCaptured(number); }

#undef UNSUPPORTED
#define UNSUPPORTED(name)                                     \
  FRUGAL_STAND_IN int name() {                                \
    ReportUnsupported(#name);                                 \
    return Explain(kInvalidUsage, #name " is not simulated"); \
  }
#include "simulated_gpu/libraries/nccl_functions.inc"

}  // namespace frugal::sim
