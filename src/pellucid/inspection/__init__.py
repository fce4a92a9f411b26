"""What a model attends to, drawn: pictures that need no script, no network and no library to be looked at."""

from pellucid.inspection.attention_svg import draw_attention

__all__ = ["draw_attention"]
