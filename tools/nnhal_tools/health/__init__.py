"""``nnhal health``: whether processes answer.

Containers and Kubernetes ask every few seconds, so nothing here imports gRPC, protobuf or another package of nnhal.
"""
