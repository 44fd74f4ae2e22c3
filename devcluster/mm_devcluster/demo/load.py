"""Clients that ask a model about a picture without pause, and count what goes wrong."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from openai import OpenAI, OpenAIError

from mm_devcluster.demo.questions import Question, content_of

REQUEST_SECONDS = 120.0  # a queue of a busy machine included


@dataclass
class Load:
    """What the clients met; read it while they ask or afterwards."""

    answered: int = 0
    failed: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def ask(self, address: str, model: str, question: Question) -> None:
        """Ask one question again and again until told to stop."""
        client = OpenAI(base_url=address, api_key="none", timeout=REQUEST_SECONDS, max_retries=0)
        messages: Any = [{"role": "user", "content": content_of(question)}]
        while not self._stop.is_set():
            try:
                client.chat.completions.create(model=model, messages=messages, max_tokens=24)
            except OpenAIError as error:
                with self._lock:
                    self.failed.append(f"{type(error).__name__}: {error}"[:300])
                time.sleep(1)
            else:
                with self._lock:
                    self.answered += 1

    def stop(self) -> None:
        """Let every client end after its present request."""
        self._stop.set()


@contextmanager
def clients(count: int, address: str, model: str, question: Question) -> Iterator[Load]:
    """Run so many clients until the block ends."""
    load = Load()
    threads = [
        threading.Thread(target=load.ask, args=(address, model, question), daemon=True)
        for _ in range(count)
    ]
    for thread in threads:
        thread.start()
    try:
        yield load
    finally:
        load.stop()
        for thread in threads:
            thread.join(REQUEST_SECONDS)
