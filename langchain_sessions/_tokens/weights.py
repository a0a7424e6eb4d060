"""What the parts of a text cost in the vocabularies of models, as far as the shape of a text tells it.

Fitted by least squares to exact counts of chats, meetings, documentation, program text in a dozen languages, JSON, and
Chinese and thirty other languages, too little weighing twice as much as too much; checked on other texts of each kind.
The first two were fitted before, to prose, chats, program text and JSON.

Nobody publishes the vocabularies of Claude and of some others. `unknown` is fitted to the largest count of each text
among those that cut digits by threes, as most do. What is known of Claude is that it needs a fifth to a third more
than OpenAI's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

Vocabulary = Literal[
    "o200k_base",
    "cl100k_base",
    "llama3",
    "llama2",
    "mistral_v3",
    "mistral_v1",
    "gemma3",
    "qwen3",
    "deepseek_v3",
    "glm4",
    "kimi_k2",
    "claude",
    "unknown",
]

# Letters of Latin words are letters here too, and nothing else is: what ends a word for `bytes.title` ends it for us.
ACCENTED, EXTENDED = b"e", b"v"
SYMBOL, GREEK, CYRILLIC, HEBREW, ARABIC = b"1", b"2", b"3", b"4", b"5"
INDIC, KANA, HAN, HANGUL, WIDE, EMOJI = b"6", b"7", b"8", b"9", b"#", b"*"
_SCRIPTS = (ACCENTED, SYMBOL, GREEK, CYRILLIC, HEBREW, ARABIC, INDIC, EXTENDED, KANA, HAN, HANGUL, WIDE, EMOJI)


class Weights(NamedTuple):
    """Tokens per occurrence. `scripts` holds, per class, tokens per character and per run of it.

    `random` is what data that was drawn takes more, such as keys and base64, for each place where a capital follows a
    letter and a digit another one, beyond one in twenty characters.
    """

    letter: float
    word: float
    camel_hump: float
    capital_pair: float
    random: float
    number: float
    digit: float
    four_digits: float
    mark: float
    mark_blank: float
    blank_mark: float
    four_marks: float
    newline: float
    indent: float
    scripts: tuple[tuple[bytes, float, float], ...]


def _weights(parts: Iterable[float], per_char: Iterable[float], per_run: Iterable[float]) -> Weights:
    """What was fitted, in the order of the fields and of the scripts."""
    scripts = tuple(zip(_SCRIPTS, per_char, per_run, strict=True))
    return Weights._make((*parts, scripts))


def _times(weights: Weights, factor: float) -> Weights:
    """The weights of a vocabulary that needs so much more of everything."""
    *parts, scripts = weights
    _, *by_script = zip(*scripts, strict=True)
    per_char, per_run = ((number * factor for number in numbers) for numbers in by_script)
    return _weights((part * factor for part in parts), per_char, per_run)


_CLAUDE = 1.25

WEIGHTS: dict[str, Weights] = {
    "o200k_base": _weights(
        (0.069, 0.752, 0.89, 0.114, 1.506, 1.802, 0, 0.451, 0.381, 0.279, 0.315, -0.844, 0.701, 0.669),
        (1.349, 1.073, 0.383, 0.181, 0.344, 0.286, 0.447, 0.283, 0.579, 0.648, 0.565, 0.771, 1.89),
        (0, 0, 0.329, 0.89, 0.443, 0.552, 0, 0, 0, 1.151, 0.595, 0, -0.09),
    ),
    "cl100k_base": _weights(
        (0.07, 0.802, 0.914, 0.075, 1.83, 1.847, 0, 0.333, 0.334, 0.295, 0.359, -0.743, 0.58, 0.72),
        (2.29, 0.487, 0.888, 0.277, 1.365, 0.14, 1.219, 2.017, 0.843, 1.057, 1.165, 0.76, 2.6),
        (0, 0, 1.115, 1.836, 0, 3.562, 0.834, 0, 0, 1.31, 0.29, 0, -0.202),
    ),
    "llama3": _weights(
        (0.135, 0.544, 0.301, 0.086, 2.633, 2.062, 0, 0.244, 0.249, 0.139, 0.819, 0.042, 0.684, 0.351),
        (0, 0.312, 0.443, 0, 1.183, 0.461, 0.61, 0, 0.118, 0.699, 0.554, 0.817, 2.59),
        (1.904, 0.505, 0.065, 2.518, 0.035, 0, 1.481, 0, 1.901, 1.032, 0.818, 0, -0.263),
    ),
    "llama2": _weights(
        (0.096, 0.808, 0.789, 0.66, 1.862, 1.328, 0.621, 0, 0.614, 0, 0.163, -1.019, 1.398, 0.711),
        (2.487, 0.527, 1.008, 0.16, 1.065, 0.363, 1.071, 0.665, 0.091, 1.316, 1.844, 2.413, 4.002),
        (0.168, 0, 0.734, 1.779, 0.244, 3.375, 1.696, 0.666, 4.364, 0.344, 0.793, 0, 0.039),
    ),
    "mistral_v3": _weights(
        (0.112, 0.634, 0.46, 0.39, 2.131, 1.381, 0.757, 0, 0.315, 0.165, 0.718, 0.032, 0.795, 0.369),
        (1.261, 0.376, 0.417, 0.126, 0.544, 0.328, 0.52, 0, 0.114, 0.796, 0.346, 0.55, 4.026),
        (0.355, 0.589, 0.206, 1.603, 0.051, 0.289, 0, 0, 1.502, 1.645, 1.202, 0, -0.666),
    ),
    "mistral_v1": _weights(
        (0.104, 0.716, 0.607, 0.469, 2.404, 1.451, 0.571, 0, 0.634, 0, 0.163, -1.087, 1.589, 0.636),
        (2.391, 0.802, 1.011, 0.3, 1.064, 0.424, 0.999, 0.406, 0.417, 1.002, 1.285, 2.21, 2.652),
        (0.569, 0.255, 0.816, 1.07, 0.208, 2.945, 1.474, 0.406, 2.885, 0.201, 0.426, 0, 0.53),
    ),
    "gemma3": _weights(
        (0.065, 0.818, 0.685, 0.264, 1.533, 1.094, 0.741, 0, 0.601, 0, 0.197, -1.385, 1.048, 1.034),
        (0.608, 0.368, 0.426, 0, 0.549, 0.407, 0.322, 0, 0, 0.602, 0.458, 1.245, 0.989),
        (0.848, 0.545, 0.038, 2.033, 0, 0, 0, 0, 1.77, 0.268, 0.709, 0, -0.092),
    ),
    "qwen3": _weights(
        (0.121, 0.592, 0.348, 0.095, 2.575, 1.346, 0.769, 0, 0.249, 0.174, 0.835, 0.047, 0.76, 0.299),
        (0.736, 0.256, 1.007, 0.07, 0.476, 0, 0.47, 0, 0.087, 0.402, 0.607, 0.363, 1.135),
        (1.407, 0.844, 0.122, 2.529, 0, 2.623, 3.868, 0, 1.491, 2.154, 0.863, 0, 0.542),
    ),
    "deepseek_v3": _weights(
        (0.111, 0.625, 0.489, 0.38, 1.852, 1.887, 0, 0.176, 0.381, 0.108, 0.589, -0.36, 0.9, 0.376),
        (1.07, 0.234, 0.52, 0.041, 0.589, 0.334, 0.344, 0, 0.178, 0.397, 0.572, 0.503, 2.025),
        (1.287, 0.602, 0.176, 2.374, 0.057, 0.686, 1.478, 0, 1.401, 1.635, 0.935, 0, -0.119),
    ),
    "glm4": _weights(
        (0.111, 0.631, 0.404, 0.08, 2.691, 1.693, 0.229, 0.285, 0.249, 0.175, 0.85, 0.006, 0.875, 0.214),
        (0.946, 0.38, 0.487, 0, 1.16, 0.514, 1.024, 0, 0, 0.357, 0.783, 0.273, 2.596),
        (0.981, 0.265, 0, 2.331, 0.119, 0.027, 1.815, 0, 2.03, 2.232, 0.794, 0, -0.224),
    ),
    "kimi_k2": _weights(
        (0.098, 0.667, 0.481, 0.085, 1.956, 1.936, 0.036, 0, 0.212, 0.179, 0.978, 0.043, 0.952, 0.248),
        (1.368, 0.199, 0.667, 0.077, 0.676, 0.546, 0.779, 0.188, 0, 0.271, 0.83, 0.528, 2.424),
        (1.597, 0.759, 0.145, 2.461, 0.226, 0.208, 0, 0.188, 2.118, 2.38, 0.629, 0, -0.25),
    ),
    "unknown": _weights(
        (0.123, 0.585, 0.417, 0.351, 2.131, 1.892, 0.07, 0.73, 0.367, 0.094, 0.601, -0.259, 0.817, 0.438),
        (1.78, 0.395, 1.018, 0.177, 1.154, 0.584, 1.023, 0.214, 0.055, 1.069, 0.895, 0.866, 2.6),
        (1.121, 0.039, 0.276, 2.445, 0.088, 1.323, 1.809, 0.215, 4.291, 0, 0.825, 1.402, -0.202),
    ),
}
WEIGHTS["claude"] = _times(WEIGHTS["unknown"], _CLAUDE)
