"""What a node says instead of an answer: a status and one JSON object, whatever went wrong."""

import json
from typing import Any

from starlette.responses import JSONResponse

from gnomon.decode.held import NotHeldError, TooLargeError
from gnomon.decode.state_file import StateCorruptError, StateFileError, StateIdentityError
from gnomon.reference.errors import GnomonError, NonFiniteError
from gnomon.reference.own_code import OwnCodeError

TYPES = {401: "authentication_error", 403: "permission_error", 503: "overloaded_error"}
Headers = dict[str, str]


class Said(JSONResponse):
    """JSON in ASCII: half of a surrogate pair, which a request may hold and a refusal name, has no UTF-8."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


class Refusal(Exception):  # noqa: N818 - it is raised to be sent, as a response
    """status: of the response; body: its object; headers: beside those that every response has"""

    def __init__(self, status: int, body: dict[str, Any], headers: Headers | None = None) -> None:
        super().__init__(status, body)
        self.status, self.body, self.headers = status, body, headers


def refusal(status: int, code: str, sentence: str, param: str | None = None, headers: Headers | None = None) -> Refusal:
    """In the shape that OpenAI clients read. code: a word for programs; param: the field that is meant"""
    kind = TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return Refusal(status, {"error": {"message": sentence, "type": kind, "param": param, "code": code}}, headers)


def refused(error: Exception) -> Refusal:
    """Any error as what is said of it. A state file that is not taken has a flat object of its own."""
    match error:
        case Refusal():
            return error
        case StateIdentityError():
            return Refusal(409, {"error": "state_identity", **error.fields})
        case StateCorruptError():
            return Refusal(422, {"error": "state_corrupt", "message": str(error)})
        case StateFileError():
            return Refusal(400, {"error": "state_file", "message": str(error)})
        case NotHeldError():
            return refusal(404, "no_state", str(error))
        case TooLargeError():
            return refusal(413, "too_large", str(error))
        case NonFiniteError():
            return refusal(500, "nonfinite", str(error))
        case OwnCodeError():  # where in whose file is for the log
            return refusal(500, "engine", f"The engine {error.whose} of this node failed; its log says where")
        case GnomonError():
            return refusal(400, "invalid", str(error))
    return refusal(500, "failed", f"The node itself failed with {type(error).__name__}; its log says more")
