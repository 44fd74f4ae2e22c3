"""PURE: how large a schema is at the least, without writing it: that takes 0.1 s of 24 MB."""


def least_size(schema: object) -> int:
    """Return the characters of all texts and names in a schema; its JSON has more."""
    found, left = 0, [schema]
    while left:
        match left.pop():
            case str(text):
                found += len(text)
            case dict(fields):
                found += sum(map(len, fields))
                left += fields.values()
            case list(items):
                left += items
            case _:
                pass
    return found
