"""The table: what vLLM's public tests of its API request, and what this gateway answers.

`tests/openai` sends each row; `tools/generate_vllm_page.py` writes
docs/reference/vllm-requests*.md from it.
"""

from support.vllm_requests import calls, chats, completions, media, routes, transcriptions

SECTIONS = {
    "Completions": completions.ROWS,
    "Chats": chats.ROWS,
    "Images, videos, recordings": media.ROWS,
    "Tools and responses": calls.ROWS,
    "Transcriptions and translations": transcriptions.ROWS,
    "Tokens, models, routes": routes.ROWS,
}
"""Heading of the page -> rows."""
ROWS = tuple(row for rows in SECTIONS.values() for row in rows)
OF_AUDIO = transcriptions.ROWS
"""Those that a model of audio is sent; the others are a model's of chats."""
