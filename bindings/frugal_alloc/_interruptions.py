"""Exceptions that the program's signal handlers raise while our code runs: they are the program's, and have to reach
it.

Every other exception in our code is ours, and must not reach the program.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import CodeType, FrameType, MethodType, TracebackType
from typing import Any, ClassVar

from ._program.frame_variables import is_among

# As `inspect` names them, which takes long to import.
_CO_VARARGS, _CO_VARKEYWORDS = 4, 8


def is_programs(error: BaseException) -> bool:
    """Whether an exception, caught where code of ours had been called, came from a handler of a signal.

    Not every error out of the program's code is one: its objects may fail when we look at them.
    """
    # An interruption by the keyboard, or the program's exit: nothing of ours raises them.
    return not isinstance(error, Exception) or _of_handler(error) is not None


def pass_on(error: BaseException) -> None:
    """Raises the error again if it is the program's: the first thing to do where all errors of ours are caught."""
    if is_programs(error):
        raise error


def attempt(otherwise: Any, call: Callable, *arguments: Any) -> Any:
    """What a call returns; `otherwise` where it fails, unless the error is the program's."""
    try:
        return call(*arguments)
    except Exception as error:
        pass_on(error)
        return otherwise


def to_its_end(call: Callable, *arguments: Any) -> None:
    """Calls again what a handler of a signal interrupts, which has to be harmless; then raises what the handler did."""
    interruption = None
    while True:
        try:
            call(*arguments)
            break
        except BaseException as error:
            if not is_programs(error):
                raise
            interruption = _without_callee(error)
    if interruption is not None:
        try:
            raise interruption
        finally:
            del interruption  # which holds this frame


def _of_handler(error: BaseException) -> TracebackType | None:
    """The part of the traceback that begins with the handler; None: no handler of the program is in it."""
    handlers = None
    caller = None
    traceback = error.__traceback__
    while traceback is not None:
        frame = traceback.tb_frame
        if caller is not None and is_among(_arguments(frame), caller):
            return traceback
        # A handler may have let go of its arguments.
        handlers = set(_handlers()) if handlers is None else handlers
        if frame.f_code in handlers:
            return traceback
        caller, traceback = frame, traceback.tb_next
    return None


def _arguments(frame: FrameType) -> list[Any]:
    """Of a frame that has ended. Python calls a handler of a signal with the frame that it has interrupted."""
    code = frame.f_code
    starred = bool(code.co_flags & _CO_VARARGS) + bool(code.co_flags & _CO_VARKEYWORDS)
    count = code.co_argcount + code.co_kwonlyargcount + starred
    return [frame.f_locals.get(name) for name in code.co_varnames[:count]]


def _handlers() -> Iterator[CodeType]:
    for number in signal.valid_signals():
        handler = signal.getsignal(number)
        while isinstance(handler, functools.partial):
            handler = handler.func
        if isinstance(handler, MethodType):
            handler = handler.__func__
        code = getattr(handler, "__code__", None) or getattr(type(handler).__call__, "__code__", None)
        if isinstance(code, CodeType):
            yield code


def callback(call: Callable, otherwise: Any = None) -> Callable:
    """For a function that the library calls, which nothing can be raised through: if it fails, it returns `otherwise`.

    What is the program's is raised once the library has returned. Threads that Python does not handle signals in are
    interrupted by nobody.
    """

    @functools.wraps(call)
    def quiet(*arguments: Any) -> Any:
        _this_thread.callbacks += 1
        try:
            return call(*arguments)
        except BaseException as error:
            if is_programs(error) and threading.current_thread() is threading.main_thread():
                _Pending.waiting.append(_Pending(_without_callee(error), quiet.__code__))
            return otherwise
        finally:
            _this_thread.callbacks -= 1
            if _Pending.waiting:
                _Pending.waiting[0].schedule()

    return quiet


def _without_callee(error: BaseException) -> BaseException:
    """The exception without the frames that it has come through from the handler on: they hold tensors, and an
    exception may be kept."""
    traceback, handler = error.__traceback__, _of_handler(error)
    while traceback is not None and traceback is not handler:
        with contextlib.suppress(RuntimeError):  # it has not ended yet
            traceback.tb_frame.clear()
        traceback = traceback.tb_next
    return error.with_traceback(handler)


class _ThisThread(threading.local):
    callbacks = 0  # that it is in


_this_thread = _ThisThread()


class _Pending:
    """An exception that is raised in the main thread, in which signals are handled, once a callback has returned.

    Python's pending calls are C functions, and may come in the callback, too. Asking whether an object is true is one:
    ours answers by raising the exception, or asks to be asked again.
    """

    # The oldest first. Python is to ask one of them at a time.
    waiting: ClassVar[list[_Pending]] = []

    def __init__(self, error: BaseException, code: CodeType) -> None:
        self._error = error
        self._code = code
        self._is_scheduled = False

    def schedule(self) -> None:
        if not self._is_scheduled:
            # Before the call, as part of which Python may ask already.
            self._is_scheduled = True
            if _add_pending_call(_is_true, id(self)) != 0:  # there are too many: the next callback's end tries again
                self._is_scheduled = False

    def __bool__(self) -> bool:
        self._is_scheduled = False
        if _this_thread.callbacks:  # its end schedules this again
            return False
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_code is self._code:  # the end of a callback, a few instructions
                self.schedule()
                return False
            frame = frame.f_back
        self.waiting.remove(self)
        if self.waiting:
            self.waiting[0].schedule()
        raise self._error


# Not ctypes.pythonapi's own, whose types are everybody's.
_add_pending_call = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(
    ("Py_AddPendingCall", ctypes.pythonapi)
)
_is_true = ctypes.cast(ctypes.pythonapi.PyObject_IsTrue, ctypes.c_void_p)
