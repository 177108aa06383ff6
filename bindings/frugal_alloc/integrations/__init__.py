"""frugal_alloc where training loops already are: callbacks and hooks, one module for each library.

    from frugal_alloc.integrations.lightning import MemoryReport
    trainer = lightning.Trainer(callbacks=[MemoryReport()])

Each module imports its library as it is imported itself, and says in one line if that is not installed: ``lightning``
(also ``pytorch_lightning``), ``transformers``, ``detectron2``, ``ignite``, ``tensorboard``, ``prometheus``.
"""
