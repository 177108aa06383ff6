// ThreadSanitizer does not see that absl::Mutex hands its waiters over by itself, and would report the semaphore
// inside them. The name is the sanitizer's. NOLINTNEXTLINE(bugprone-reserved-identifier)
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_suppressions() {
  return "race:absl::*::synchronization_internal::Waiter::Post\n";
}
