"""The description of a node for programs: OpenAPI 3.1, from the same tables that requests are checked by."""

from typing import Any

from gnomon.reference.model import Model
from gnomon.serve.asked import FORK, STATE, Schema, answer_schema

JSON, BINARY, EVENTS = "application/json", "application/octet-stream", "text/event-stream"
TEXT, COUNT = {"type": "string"}, {"type": "integer", "minimum": 0}


def reply(**properties: Schema) -> Schema:
    """Of a response: these fields, and others that may come."""
    return {"type": "object", "properties": properties, "required": list(properties)}


ERROR = {"type": "object", "required": ["error"], "properties": {"error": {"anyOf": [{"type": "object"}, TEXT]}}}
HELD = reply(id=TEXT, object=TEXT, origin=TEXT, position=COUNT, nbytes=COUNT)
LIST = reply(object={"const": "list"}, data={"type": "array", "items": reply(id=TEXT, object=TEXT)})
ANSWER = reply(id=TEXT, object=TEXT, created=COUNT, model=TEXT, choices={"type": "array"}, gnomon={"type": "object"})


def describe(model: Model) -> dict[str, Any]:
    """Of a node that runs this model. The chat endpoint is there where the model has a chat template."""
    of_state = {"in": "query", "name": "id", "schema": STATE}
    answer = {JSON: ANSWER, EVENTS: {}}
    paths: dict[str, Any] = {
        "/health": {"get": does("Whether it runs", {JSON: reply(status=TEXT)}) | {"security": []}},
        "/v1/models": {"get": does("The one model", {JSON: LIST})},
        "/v1/completions": {"post": does("Go on with a text", answer, {JSON: answer_schema(model, chat=False)})},
        "/v1/chat/completions": {"post": does("Answer messages", answer, {JSON: answer_schema(model, chat=True)})},
        "/v1/state": {"get": does("What is held", {JSON: LIST}) | {"parameters": [of_state]}},
        "/v1/state/export": {
            "get": does("A conversation as a state file", {BINARY: TEXT})
            | {"parameters": [{**of_state, "required": True}]}
        },
        "/v1/state/import": {"post": does("Hold the state of a file", {JSON: HELD}, {BINARY: {}})},
        "/v1/fork": {"post": does("Copy a conversation, here or to a peer", {JSON: HELD}, {JSON: FORK})},
        "/v1/ledger/verify": {"get": does("Read the ledger from its start", {JSON: reply(verdict=TEXT)})},
    }
    if model.chat is None:
        del paths["/v1/chat/completions"]
    return {
        "openapi": "3.1.0",
        "info": {"title": "gnomon node", "version": "1"},
        "security": [{"token": []}, {}],
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "paths": paths,
    }


def does(what: str, gives: dict[str, Schema], takes: dict[str, Schema] | None = None) -> dict[str, Any]:
    """An operation. What goes wrong is said in one shape."""
    wrong = {"description": "what is wrong", "content": media({JSON: ERROR})}
    right = {"description": "done", "content": media(gives)}
    body = {} if takes is None else {"requestBody": {"required": True, "content": media(takes)}}
    return {"summary": what, "responses": {"200": right, "4XX": wrong, "5XX": wrong}, **body}


def media(schemas: dict[str, Schema]) -> dict[str, Any]:
    return {kind: {"schema": schema} if schema else {} for kind, schema in schemas.items()}
