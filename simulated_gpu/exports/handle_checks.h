// What the handles that a program passes stand for. In strict mode a handle of what was destroyed, or never was, ends
// the process, as it may on a real GPU; otherwise it is an error.

#pragma once

#include "simulated_gpu/exports/the_machine.h"
#include "simulated_gpu/machine/error.h"

namespace frugal::sim {

// An exit status that neither Python nor a test runner uses.
inline constexpr int kDeadHandleUsed = 6;

// `function` is in each the exported function that the program called, whose name is told in strict mode.

// The thread's context, or kInvalidContext if it has none.
Error FindCurrentContext(const char* function, Context** context);
// As the runtime has it: the primary context of the thread's GPU becomes current if none is.
// REQUIRES: the machine has the thread's GPU.
Error BindCurrentContext(const char* function, Context** context);
// Of a CUcontext, which stands for `context` in this form alone.
Error FindContext(const void* handle, const char* function, Context** context);
inline const void* HandleOf(const Context& context) { return &context; }
// Of a CUgreenCtx, which is another value than its CUcontext.
Error FindGreenContext(const void* handle, const char* function, Context** context);
inline const void* GreenHandleOf(const Context& context) { return reinterpret_cast<const char*>(&context) + 1; }
// Of a CUstream or cudaStream_t, as `current` understands the values of default streams.
Error FindStream(const void* handle, Context& current, const char* function, Stream** stream);
Error DestroyStream(const void* handle, const char* function);
// kSuccess, without looking at the handle, unless the mode is strict; the machine finds the error then.
Error CheckEvent(const void* handle, const char* function);
Error DestroyEvent(const void* handle, const char* function);

}  // namespace frugal::sim
