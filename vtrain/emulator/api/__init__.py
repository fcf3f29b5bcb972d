"""The API of Vertex AI for training, over the backends of this machine.

`methods` lists the requests of REST and gRPC, `service` carries them out, `app` serves them over HTTP.
"""
