"""frugal_alloc in other libraries: callbacks for training loops and dashboards, and sleep for servers, one module for
each library.

    trainer = lightning.Trainer(callbacks=[frugal_alloc.integrations.lightning.MemoryReport()])

Each module is imported when it is first used. It imports its library then, and says in one line if that is not
installed: ``lightning`` (also ``pytorch_lightning``), ``transformers``, ``detectron2``, ``ignite``, ``tensorboard``,
``prometheus``, ``vllm``. ``torch_memory_saver`` takes the place of its library.
"""

import importlib

_MODULES = frozenset(
    (
        "detectron2",
        "ignite",
        "lightning",
        "prometheus",
        "tensorboard",
        "torch_memory_saver",
        "transformers",
        "vllm",
    )
)


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
