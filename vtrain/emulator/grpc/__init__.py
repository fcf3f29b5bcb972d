"""The API over gRPC, the default of Google's Python library, which its own variables lead here.

`grpc_proxy` leads its connections to `proxy`, which lets those to Vertex AI through to `server`, and no
others.
"""
