"""No answer of the driver's is dropped but those listed here, each with the reason.

absl::Status and absl::StatusOr are [[nodiscard]] and warnings are errors, so what drops one says so in words that can
be looked for. CUresult and cudaError_t are not: of these every call is looked at.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("allocator", "bindings", "cuda")

DROPS = re.compile(r"\.IgnoreError\(|\(void\)\s*\w+[.(]|static_cast<void>\(|\bstd::ignore\b|\.value_or\(")
DRIVER_CALL = re.compile(r"\b(?:(?:api_|api|driver)\.[A-Z]\w+|cu(?:da)?[A-Z]\w+)\(")
# What stands between the beginning of a statement and a call whose answer it uses.
USES_ANSWER = re.compile(r"=|\breturn\b|ToStatus\(|\bif\b|_CHECK\(|_CALL\(|decltype")

# By file: a part of the line, and why it may drop what it drops.
DELIBERATE = {
    "allocator/allocator_state.cc": {"backing.release()": "no status: accounting that broke keeps what it owns"},
    "allocator/birth_record.cc": {"static_cast<void>(state_.Break(": "the status is kept in health"},
    "allocator/device_allocator.cc": {
        "WithLock(&DeviceAllocator::FreeLocked,": "fails for a block that is not in use alone, and this one is"
    },
    "allocator/sleep.cc": {"static_cast<void>(Locked<absl::Status>(": "the status is kept in health"},
    "allocator/block_returns.cc": {"pools_.LetGo(pools, only)": "no status: the names of the pools"},
    "allocator/blocks/arena_set.h": {"kept_.": "no status"},
    "allocator/blocks/fence.cc": {"HasPassed().value_or(false)": "the failure of the wait before it is returned"},
    "allocator/miss_ladder.cc": {
        "asked.value_or(": "counted as absorbed in the line before",
        "GiveBackReleased()": "no status: the device is asked for memory next either way",
    },
    "allocator/backing/page_returns.cc": {"unseen.value_or(false)": "returned when it is not true"},
    "allocator/backing/paired_backing.cc": {"WaitForAll()": "counted where it failed; what it could not do stays"},
    "allocator/backing/segment_backing.cc": {"WaitForAll()": "counted where it failed; what it could not do stays"},
    "allocator/blocks/stream_clocks.cc": {"passed.value_or(false)": "counted as absorbed in the line before"},
    "allocator/blocks/stream_questions.cc": {"answer.value_or(false)": "counted as absorbed in the line before"},
    "bindings/include/frugal_alloc/torch.h": {
        "frugal_keep_in_place(address_, bytes_, 0)": "in the destructor: what was kept is let go as often",
        "frugal_cuda_malloc(0)": "in the destructor: what was entered is left",
        "frugal_epoch_end()": "fails only before enable(), where it is to do nothing",
        "frugal_expect_growth(": "fails for no phase, and this one was just made",
    },
    "bindings/include/frugal_alloc/sleep.h": {"frugal_untag()": "in the destructor: what was entered is left"},
    "bindings/adapter/gpu_memory.cc": {
        "driver_reserve.value_or(": "no status",
        "ReturnPassed(at_once).value_or(": "counted, and for another process: what has not gone is still held",
    },
    "bindings/adapter/gpu_memory.h": {"GiveBackReleased()": "no status: whether some came back"},
    "bindings/adapter/gpu_set.cc": {"some.value_or(": "returned: the line after adds it to `status`"},
    "bindings/publishing/publisher.cc": {
        "EndSession(kLongestExit)": "no status: the thread is left to itself",
        "one->StopWithin(": "no status, and exit goes on either way",
        "session.release()": "the thread's, for ever",
    },
    "bindings/publishing/publisher.h": {"StopWithin(absl::InfiniteDuration())": "no status"},
    "bindings/threads/idle_releaser.cc": {"guarded->StopWithin(": "no status, and exit goes on either way"},
    "bindings/threads/idle_releaser.h": {"StopWithin(absl::InfiniteDuration())": "no status"},
    "bindings/c_api/sleep_api.cc": {"static_cast<void>(Guarded(": "null is returned, and the last error says why"},
    "bindings/adapter/tags.cc": {"static_cast<void>(Current())": "no status"},
    "bindings/adapter/pool_streams.cc": {"cudaGetLastError()": "the failure of the call before, which is answered"},
    "bindings/adapter/private_pools.cc": {"cudaGetLastError()": "the failure of the call before, which is answered"},
    "bindings/adapter/reclaimer.cc": {"ReturnReleased().value_or(": "where the driver fails, it is tried for again"},
    "bindings/adapter/peer_access.cc": {
        "CanReach(device, accessed)": "not known, so not relied on",
        "MayReach(device, Address(memory))": "not known, so let in",
    },
    "bindings/adapter/routing.h": {"SetAll(passthrough_": "no status", "SetAll(uncached_": "no status"},
    "bindings/adapter/shareable_storage.cc": {
        "RecordKnownStreams(": "fails only for a block that is not in use, and this one is"
    },
    "bindings/tracking/phase_table.h": {"Find(": "no status"},
    "bindings/adapter/torch_allocator.cc": {"data.get_deleter()": "no status"},
    "bindings/adapter/torch_allocator_pools.cc": {
        "ReleasePool(": "fails only once an invariant is broken, and then nothing is given back or reused",
        "SetTag(": "fails only for native's memory, which never sleeps",
    },
    "bindings/adapter/torch_compat.h": {"include_traces": "no status", "static_cast<void>(allocator)": "no status"},
    "cuda/stream_lives.cc": {"CtxPopCurrent(": "gives back what the same thread has pushed"},
    "cuda/pointer_access.cc": {"CtxPopCurrent(": "gives back what the same thread has pushed"},
    "cuda/driver_scope.h": {
        "ThreadExchangeStreamCaptureMode(&mode_);": "gives back what the same thread has taken",
        "CtxPopCurrent(": "gives back what the same thread has pushed",
    },
    "cuda/host_copies.cc": {
        "static_cast<void>(Trim())": "in the destructor: nobody is left to be told",
        "static_cast<void>(TrimInDriver())": "after a failure that is returned: what cannot go stays, and is counted",
        "static_cast<void>(pool_.ReleaseIdle(": "what cannot go stays, and is counted",
    },
    "cuda/host_pool.cc": {"static_cast<void>(ReleaseIdle(": "after a failure that is returned: the same"},
    "cuda/driver_device.cc": {
        "api_.EventDestroy(event);": "in the destructor: nobody is left to be told",
        "api_.EventDestroy(ToDriver(event));": "of a context that may have ended: what is lost is the event alone",
        "DevicePrimaryCtxRelease(": "in the destructor: nobody is left to be told",
        "LearnWhatGroupCounts()": "not known, so the limit counts",
    },
    "cuda/unified_memory.cc": {"value_or(": "no status"},
}


def sources() -> list[Path]:
    return sorted(path for folder in FOLDERS for end in ("*.cc", "*.h") for path in (ROOT / folder).rglob(end))


def code_of(text: str) -> str:
    """Without comments, the text of strings and what is the preprocessor's."""
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', text)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.MULTILINE)


def line_at(text: str, position: int) -> str:
    return text[text.rfind("\n", 0, position) + 1 : text.find("\n", position)].strip()


def dropped(text: str) -> tuple[list[str], int]:
    """The lines that drop something, and how many driver calls there are."""
    lines = [line_at(text, found.start()) for found in DROPS.finditer(text)]
    calls = 0
    for call in DRIVER_CALL.finditer(text):
        begin = max(text.rfind(mark, 0, call.start()) for mark in ";{}")
        before = text[begin + 1 : call.start()]
        calls += 1
        # What comes behind the head of a loop or an if is a statement of its own.
        before = re.sub(r"^\s*(?:else )?(?:for|if|while) \(.*\) (?!=)", "", before)
        if not USES_ANSWER.search(before) and before.strip() in ("", "::"):
            lines.append(line_at(text, call.start()))
    return lines, calls


def test_only_what_is_listed_is_dropped() -> None:
    unexplained, unused, calls, files = [], dict(DELIBERATE), 0, 0
    used = set()
    for path in sources():
        name = str(path.relative_to(ROOT))
        lines, count = dropped(code_of(path.read_text()))
        calls, files = calls + count, files + 1
        for line in lines:
            reasons = [(name, part) for part in DELIBERATE.get(name, {}) if part in line]
            used.update(reasons)
            if not reasons:
                unexplained.append(f"{name}: {line}")
    unused = {(name, part) for name, parts in DELIBERATE.items() for part in parts} - used
    print(f"COUNTS {calls} driver calls in {files} files; {len(used)} deliberate drops")
    assert not unexplained
    assert not unused, "taken out of the code: take them out of the list"
    assert calls > 20


def test_a_dropped_answer_is_found() -> None:
    for line in (
        "device_.Unmap(a, b).IgnoreError();",
        "api_.MemUnmap(a, b);",
        "cudaFree(pointer);",
        "(void)Trim();",
        "for (a : b) cudaFree(a);",
    ):
        assert dropped("{\n  " + line + "\n}")[0] == [line]
    for line in ("return api_.MemUnmap(a, b);", "C10_CUDA_CHECK(cudaFree(pointer));", "status = Trim();"):
        assert dropped("{\n  " + line + "\n}")[0] == []
