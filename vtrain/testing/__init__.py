"""For tests of vtrain and of third-party backends: a backend in memory, and the contract that backends keep.

`memory.MemoryBackend` runs scripted jobs without a process. `contract.BackendContract` is a pytest class for
any backend: inherit from it, say how a backend is made, and run it. `contract.ReplicaContract` adds the rules
of Vertex AI, for a backend that has its replicas, attempts and states. `script` describes the trainers.
"""
