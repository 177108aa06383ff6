// The functions of control.h.

#include "simulated_gpu/machine/control.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "simulated_gpu/exports/handle_checks.h"
#include "simulated_gpu/exports/the_machine.h"
#include "simulated_gpu/machine/thread_state.h"

namespace frugal::sim {

namespace {

// As a launch by the runtime finds it; nullptr if there is none.
Stream* FindStream(Machine& machine, const void* handle, const char* function) {
  if (!machine.HasGpu(ThisThread().gpu)) return nullptr;
  Context* context = nullptr;
  Stream* stream = nullptr;
  Error error = BindCurrentContext(function, &context);
  if (error == Error::kSuccess) error = FindStream(handle, *context, function, &stream);
  return error == Error::kSuccess ? stream : nullptr;
}

}  // namespace

extern "C" {

uint64_t frugal_sim_calls(const char* kind) {
  constexpr std::string_view kInDriver = "driver.";
  std::string_view name = kind;
  const bool in_driver = name.starts_with(kInDriver);
  if (in_driver) name.remove_prefix(kInDriver.size());
  const std::optional<CallKind> known = CallKindFromName(name);
  if (!known) return UINT64_MAX;
  const Calls& calls = TheMachine().calls();
  return in_driver ? calls.driver_count(*known) : calls.count(*known);
}

}  // extern "C"

namespace {

// 0 for a GPU that does not exist.
uint64_t BytesOf(int gpu, Bytes (PhysicalMemory::*bytes)() const) {
  Machine& machine = TheMachine();
  return machine.HasGpu(gpu) ? static_cast<uint64_t>((machine.gpu(gpu).memory().*bytes)().count()) : 0;
}

}  // namespace

extern "C" {

uint64_t frugal_sim_mapped_handles(void) { return static_cast<uint64_t>(TheMachine().mapped_handles().taken()); }

uint64_t frugal_sim_memory_of_driver(int gpu) { return BytesOf(gpu, &PhysicalMemory::taken_for_driver); }

int frugal_sim_take_for_driver(int gpu, int64_t bytes) {
  Machine& machine = TheMachine();
  if (!machine.HasGpu(gpu)) return 0;
  PhysicalMemory& memory = machine.gpu(gpu).memory();
  if (bytes >= 0) return memory.TakeForDriver(Bytes(bytes)) ? 1 : 0;
  memory.GiveBackForDriver(Bytes(-bytes));
  return 1;
}

uint64_t frugal_sim_driver_ns(void) { return static_cast<uint64_t>(TheMachine().calls().driver_time().count()); }

void frugal_sim_reset_counters(void) {
  Machine& machine = TheMachine();
  machine.calls().ResetCounters();
  for (int gpu = 0; gpu < machine.gpu_count(); ++gpu) machine.gpu(gpu).memory().ResetPeak();
}

uint64_t frugal_sim_memory_used(int gpu) { return BytesOf(gpu, &PhysicalMemory::used); }

uint64_t frugal_sim_memory_managed(int gpu) {
  return static_cast<uint64_t>(TheMachine().segments().managed(gpu).count());
}

uint64_t frugal_sim_memory_peak(int gpu) { return BytesOf(gpu, &PhysicalMemory::peak); }

uint64_t frugal_sim_kept_bytes(void) { return static_cast<uint64_t>(TheMachine().configuration().keep.count()); }

int frugal_sim_modelled_workspaces(int* capability, int* multiprocessors) {
  const Configuration& configuration = TheConfiguration();
  *capability = configuration.model.capability;
  *multiprocessors = configuration.model.multiprocessors;
  return configuration.models_workspaces ? 1 : 0;
}

void frugal_sim_set_clock(uint64_t ns) { TheMachine().clock().Set(Nanoseconds(static_cast<int64_t>(ns))); }

void frugal_sim_set_stream_busy_until(void* stream, uint64_t ns) {
  Machine& machine = TheMachine();
  Stream* found = FindStream(machine, stream, __func__);
  if (found != nullptr) machine.streams().SetBusyUntil(*found, Nanoseconds(static_cast<int64_t>(ns)));
}

int frugal_sim_set_faults(const char* plan) {
  std::optional<FaultPlan> parsed = FaultPlan::Parse(plan);
  if (!parsed) return 1;
  TheMachine().calls().SetFaults(*std::move(parsed));
  return 0;
}

uint64_t frugal_sim_faults(void) { return TheMachine().calls().faults(); }

int64_t frugal_sim_host_file(const char* path, char* text, uint64_t size) {
  if (!TheConfiguration().host.on) return -1;
  const std::optional<std::string> file = TheMachine().HostFile(path);
  if (!file) return -1;
  std::copy_n(file->data(), std::min<uint64_t>(file->size(), size), text);
  return static_cast<int64_t>(file->size());
}

int frugal_sim_checks_order(void) { return TheMachine().order() != nullptr ? 1 : 0; }

int frugal_sim_touch(void* stream, const void* start, uint64_t bytes, int writes, const char* name) {
  Machine& machine = TheMachine();
  if (!machine.configuration().wants_uses()) return 0;
  Stream* found = FindStream(machine, stream, __func__);
  if (found == nullptr) return 0;
  Work work;
  work.kind = WorkKind::kKernel;
  // The launch itself has taken what every kernel does.
  work.duration = machine.configuration().DurationOf(ToBytes(bytes)) - machine.configuration().DurationOf(Bytes(0));
  work.name = name;
  work.uses = {{Address(start), ToBytes(bytes), writes != 0, /*must_be_mapped=*/true}};
  return machine.streams().Enqueue(*found, std::move(work)) == Error::kSuccess ? 1 : 0;
}

uint64_t frugal_sim_order_accesses(void) {
  const OrderChecker* order = TheMachine().order();
  return order == nullptr ? 0 : order->accesses();
}

uint64_t frugal_sim_order_violations(void) {
  const OrderChecker* order = TheMachine().order();
  return order == nullptr ? 0 : order->violations();
}

uint64_t frugal_sim_order_report(char* text, uint64_t size) {
  const OrderChecker* order = TheMachine().order();
  const std::string report = order == nullptr ? "" : order->Report();
  if (size > 0) *std::copy_n(report.data(), std::min<uint64_t>(report.size(), size - 1), text) = '\0';
  return report.size();
}

void frugal_sim_set_graph_execution(int on) { ThisThread().runs_graphs = on != 0; }

}  // extern "C"

}  // namespace frugal::sim
