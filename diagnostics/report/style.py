"""The colours and the layout of a report, for light and dark pages, wide and narrow ones."""

from __future__ import annotations

import re
from collections.abc import Mapping

_KINDS = {
    "admitted": "blue",
    "refined_late": "amber",
    "dropped_late": "red",
    "quarantined": "violet",
    "outside": "gray",
    "repeated": "teal",
    "plan": "blue",
    "tables": "teal",
    "open": "blue",
    "state": "violet",
    "mark": "blue",
    "p-fired": "blue",
    "p-refined": "amber",
    "p-closed": "gray",
    "refined-dot": "amber",
}
_LINES = {"present": "red", "mark-edge": "blue"}
_LIGHT = {
    "ground": "#f6f8fa",
    "card": "#fff",
    "ink": "#1f2328",
    "muted": "#59636e",
    "rule": "#e4e8ec",
    "axis": "#9aa4af",
    "gap": "#fde8d0",
    "blue": "#2f6fde",
    "amber": "#d98200",
    "red": "#cf222e",
    "violet": "#8250df",
    "teal": "#12908a",
    "gray": "#aeb8c2",
    "dot": "#d98200",
    "good": "#1a7f37",
    "bad": "#cf222e",
    "warn": "#9a6700",
    "soft": "#eaf1fe",
}
_DARK = {
    "ground": "#0d1117",
    "card": "#161b22",
    "ink": "#e6edf3",
    "muted": "#9198a1",
    "rule": "#262d36",
    "axis": "#59636e",
    "gap": "#3d2c17",
    "blue": "#58a6ff",
    "amber": "#e3a33a",
    "red": "#f85149",
    "violet": "#a57cf0",
    "teal": "#3cc8bd",
    "gray": "#57616c",
    "dot": "#f2b84b",
    "good": "#3fb950",
    "bad": "#f85149",
    "warn": "#d29922",
    "soft": "#12233f",
}
_LAYOUT = """
*{box-sizing:border-box}
body{margin:0;background:$ground;color:$ink;font:14px/1.45 system-ui,-apple-system,"Segoe UI",sans-serif}
header,main,footer{max-width:1200px;margin:0 auto;padding:0 20px}
header{display:flex;flex-wrap:wrap;gap:8px 24px;align-items:center;justify-content:space-between;padding-top:24px}
h1{font-size:24px;line-height:1.2;margin:0}
h2{font-size:16px;margin:0}
p{margin:2px 0 10px;color:$muted}
.path,.health,pre{overflow-wrap:anywhere}
.path{margin:2px 0 0;font:12px/1.4 ui-monospace,monospace}
.health{margin:0;max-width:520px;display:flex;gap:10px;align-items:center}
.health b{padding:3px 11px;border-radius:99px;color:$card;background:$warn}
.health.healthy b{background:$good}.health.down b,.health.unusable b{background:$bad}
.health.stopped b{background:$muted}
main{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:16px;padding-top:18px;padding-bottom:8px}
.tiles,.card{grid-column:1/-1;background:$card;border:1px solid $rule;border-radius:10px}
.card{padding:16px 22px}
.card.half{grid-column:auto}
ul{list-style:none;margin:0;padding:0}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(104px,1fr));padding:14px 22px;gap:12px 8px}
.tiles li{color:$muted;font-size:12px}
.tiles b{display:block;font-size:20px;line-height:1.25;font-weight:600;color:$ink}
.legend{display:flex;flex-wrap:wrap;gap:4px 16px;margin-bottom:6px;font-size:12px;color:$muted}
.legend i{display:inline-block;width:11px;height:11px;border-radius:3px;margin-right:6px;vertical-align:-1px}
svg{display:block;width:100%;height:auto}
.narrow{display:none}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:13px;font-variant-numeric:tabular-nums}
th{text-align:left;font-weight:600;color:$muted;font-size:12px;white-space:nowrap}
th,td{padding:5px 12px 5px 0;border-bottom:1px solid $rule;vertical-align:top}
td{white-space:nowrap}
td:not(.n):last-child{white-space:normal;min-width:180px}
.n{text-align:right}
pre{margin:0;white-space:pre-wrap;font:12px/1.5 ui-monospace,monospace}
details{margin-top:8px}
summary{cursor:pointer;color:$muted;font-size:12px}
footer{padding-top:6px;padding-bottom:28px;font-size:12px;color:$muted}
@media (max-width:760px){
header,main,footer{padding-left:12px;padding-right:12px}
main{grid-template-columns:minmax(0,1fr);gap:12px}
.card{padding:14px}.tiles{padding:12px 14px;grid-template-columns:repeat(3,1fr)}.tiles b{font-size:17px}
.wide{display:none}.narrow{display:block}.narrow svg{max-width:560px}
}
.pk-m,.pk-t{font-size:11px}.pk-m{fill:$muted}.pk-t{fill:$ink}
.pk-grid{stroke:$rule}.pk-axis{stroke:$axis}
.pk-gap{fill:$gap}.key-gap{background:$gap}
.pk-hit{fill:transparent}.pk-down{stroke:$amber}
.pk-p-open{fill:$soft;stroke:$blue;stroke-dasharray:3 2}
.key-p-open{background:$soft;box-shadow:inset 0 0 0 1px $blue}
.pk-refined-dot{stroke:$card;stroke-width:.6}.legend .key-refined-dot{border-radius:9px;width:8px;height:8px}
.legend .key-present,.legend .key-mark{height:3px;vertical-align:3px}
.key-present{background:$red}
rect:hover,circle:hover{filter:brightness(1.15)}
"""
_COLOURS = "".join(
    [
        *(f".pk-{kind}{{fill:${colour}}}.key-{kind}{{background:${colour}}}" for kind, colour in _KINDS.items()),
        *(f".pk-{kind}{{stroke:${colour};stroke-width:1.5}}" for kind, colour in _LINES.items()),
        *(
            f".pk-{kind}-line{{fill:none;stroke:${_KINDS[kind]};stroke-width:2;stroke-linejoin:round}}"
            f".pk-{kind}-area{{fill:${_KINDS[kind]};opacity:.13}}"
            for kind in ("open", "state", "mark")
        ),
    ]
)


def _variables(colours: Mapping[str, str]) -> str:
    return ";".join(f"--{name}:{colour}" for name, colour in colours.items())


STYLE = (
    f":root{{color-scheme:light dark;{_variables(_LIGHT)}}}\n"
    f"@media (prefers-color-scheme:dark){{:root{{{_variables(_DARK)}}}}}\n"
    + re.sub(r"\$(\w+)", r"var(--\1)", _LAYOUT + _COLOURS)
)
"""The style sheet. Above, `$blue` stands for the colour of that name, which is one for light pages and one for dark."""
