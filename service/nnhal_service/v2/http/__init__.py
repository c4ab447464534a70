"""The Open Inference Protocol V2 over HTTP, with Triton's extensions."""

from nnhal_service.v2.http.app import create_app
from nnhal_service.v2.http.middleware import GuardMiddleware
from nnhal_service.v2.http.server import HttpServer

__all__ = ["GuardMiddleware", "HttpServer", "create_app"]
