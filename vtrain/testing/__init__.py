"""For tests of vtrain and of third-party backends: a backend in memory, and the contract every backend keeps.

`memory.MemoryBackend` runs scripted jobs without a process. `contract.BackendContract` is a pytest class:
inherit from it, say how a backend is made, and run it. `script` describes what trainers do.
"""
