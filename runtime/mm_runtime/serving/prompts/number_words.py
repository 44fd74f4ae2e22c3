"""PURE: numbers as English words, as the package num2words writes them.

A test compares 5,000 of them. The package is LGPL, holds 60 languages and needs another one that is
published as source only: the gateway and all images would have it for one word of a prompt.
"""

_ONES = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
    *("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen"),
    *("eighteen", "nineteen"),
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_TEN, _TWENTY, _HUNDRED, _THOUSAND = 10, 20, 100, 1000


def spelled_out(number: int) -> str:
    """Return a number from 0 to 999,999 spelled out: `one thousand, two hundred and one`."""
    thousands, rest = divmod(number, _THOUSAND)
    if not thousands:
        return _below_thousand(rest)
    words = f"{_below_thousand(thousands)} thousand"
    if not rest:
        return words
    return f"{words}{' and' if rest < _HUNDRED else ','} {_below_thousand(rest)}"


def _below_thousand(number: int) -> str:
    hundreds, rest = divmod(number, _HUNDRED)
    if not hundreds:
        return _below_hundred(rest)
    words = f"{_ONES[hundreds]} hundred"
    return f"{words} and {_below_hundred(rest)}" if rest else words


def _below_hundred(number: int) -> str:
    if number < _TWENTY:
        return _ONES[number]
    tens, ones = divmod(number, _TEN)
    word = _TENS[tens - 2]
    return f"{word}-{_ONES[ones]}" if ones else word
