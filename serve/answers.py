"""Answers in the shape of the OpenAI interface, whole or in pieces; what that has no place for stands in `gnomon`."""

import hashlib
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass, replace
from time import time
from typing import Any
from uuid import uuid4

import numpy as np

from gnomon.decode.held import Held
from gnomon.decode.live import Begun, Ended, Token
from gnomon.decode.text import Request, Text
from gnomon.decode.transcript import plain
from gnomon.reference.errors import NonFiniteError
from gnomon.reference.ledger import Ledger
from gnomon.reference.state import State
from gnomon.serve.asked import Asked
from gnomon.serve.refusal import refused

Object = dict[str, Any]


@dataclass(frozen=True)
class Done:
    """reason: why it ended; text: all of it; usage, gnomon: as the answer shows them"""

    reason: str
    text: str
    usage: Object
    gnomon: Object


Events = AsyncIterator[Begun | Token | Ended[Done]]


class Answer:
    """To one request. `prepare` and `finish` run in the engine's thread."""

    def __init__(self, asked: Asked, held: Held, ledger: Ledger) -> None:
        self.asked, self.held, self.ledger = asked, held, ledger
        self.model = held.engine.model
        self.name, self.created = f"{'chatcmpl' if asked.chat else 'cmpl'}-{uuid4().hex}", int(time())
        self.restored = 0

    def prepare(self) -> tuple[Request, State | None]:
        """What to draw, and from where. Raises NotHeldError."""
        request, name = self.asked.request, self.asked.state
        if name is None:
            return request, None
        conversation = self.held.get(name)
        state = self.held.engine.fork(conversation.state)
        self.restored = state.length
        return replace(request, ids=[*conversation.known, *request.ids]), state

    def finish(self, text: Text, logits_sha256: str) -> Done:
        """Hold the conversation and write the ledger. Raises NonFiniteError where there is no answer."""
        if text.reason == "nonfinite":
            raise NonFiniteError("Expected finite results but this text gave NaN or infinity; it has no answer")
        prompt, made = len(text.request.ids), len(text.ids)
        record = {
            "answer": self.name,
            "created": self.created,
            "restored": self.restored,
            "prompt_tokens": prompt,
            "prompt_sha256": ids_sha256(text.request.ids),
            "completion_tokens": made,
            "completion_sha256": ids_sha256(text.ids),
            "finish_reason": text.reason,
            "sampling": asdict(plain(text.request.sampling, self.model.config.vocab)),
            "logits_sha256": logits_sha256,
        }
        records, head = self.ledger.append(record)
        counts = {"prompt_tokens": prompt, "completion_tokens": made, "total_tokens": prompt + made}
        own = {"ids": text.ids, "logits_sha256": logits_sha256, "state": self.held.keep(text)}
        return Done(
            text.reason,
            text.text,
            {**counts, "prompt_tokens_details": {"cached_tokens": self.restored}},
            {**own, "ledger": {"record": records - 1, "hash": head}},
        )

    async def whole(self, events: Events) -> Object:
        """The answer when it has ended."""
        tokens = []
        async for event in events:
            if isinstance(event, Token):
                tokens.append(event)
            elif isinstance(event, Ended):
                done = event.value
        said = {"message": {"role": "assistant", "content": done.text}} if self.asked.chat else {"text": done.text}
        choices = [self._choice(said, tokens, done.reason)]
        return self._frame("chat.completion", choices, usage=done.usage, gnomon=done.gnomon)

    async def pieces(self, events: Events) -> AsyncIterator[str]:
        """The answer as server-sent events. What goes wrong meanwhile is the last but one."""
        said = 0  # characters
        try:
            if self.asked.chat:
                yield self._piece({"delta": {"role": "assistant", "content": ""}}, [], "")
            async for event in events:
                if isinstance(event, Token):
                    said += len(event.text)
                    if event.text or event.likely:
                        yield self._piece(self._more(event.text), [event], "")
                elif isinstance(event, Ended):
                    done = event.value
                    yield self._piece(self._more(done.text[said:]), [], done.reason, gnomon=done.gnomon)
                    if self.asked.usage:
                        yield sse(self._frame("chat.completion.chunk", [], usage=done.usage))
        except Exception as error:
            yield sse(refused(error).body)
        yield "data: [DONE]\n\n"

    def _piece(self, said: Object, tokens: list[Token], reason: str, **more: Any) -> str:
        return sse(self._frame("chat.completion.chunk", [self._choice(said, tokens, reason)], **more))

    def _more(self, text: str) -> Object:
        return {"delta": {"content": text} if text else {}} if self.asked.chat else {"text": text}

    def _frame(self, chat: str, choices: list[Object], **more: Any) -> Object:
        about = {"id": self.name, "object": chat if self.asked.chat else "text_completion", "created": self.created}
        return {**about, "model": self.model.name, "choices": choices, **more}

    def _choice(self, said: Object, tokens: list[Token], reason: str) -> Object:
        lines = [[self._line(*pair) for pair in token.likely] for token in tokens if token.likely]
        shown = {"content": [{**first, "top_logprobs": rest} for first, *rest in lines]} if lines else None
        ended = {"": None, "stop": "stop"}.get(reason, "length")
        return {"index": 0, **said, "logprobs": shown, "finish_reason": ended}

    def _line(self, one: int, logprob: float) -> Object:
        if self.model.tokenizer is None:
            return {"token": str(one), "logprob": logprob, "bytes": list(str(one).encode())}
        data = self.model.tokenizer.token_bytes(one)
        return {"token": data.decode("utf-8", "replace"), "logprob": logprob, "bytes": list(data)}


def sse(frame: Object) -> str:
    return f"data: {json.dumps(frame)}\n\n"


def ids_sha256(ids: Sequence[int]) -> str:
    """SHA-256 of token ids as little-endian int32."""
    return hashlib.sha256(np.array(ids, "<i4").tobytes()).hexdigest()
