"""The API of Vertex AI for training, over the backends of this machine.

`methods` lists the requests, `training_service` carries them out, `rest` and `grpc_server` serve them.
"""
