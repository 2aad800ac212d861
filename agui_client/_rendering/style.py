"""The style sheet of displays and questions, which follows the theme of the notebook, or else of the system."""

from __future__ import annotations

_LIGHT = """--agui-fg:#1f2328;--agui-dim:#59636e;--agui-line:#d1d9e0;--agui-edge:#7a8490;
--agui-soft:#f3f5f7;--agui-user:#dbeafe;
--agui-agent:#eef1f4;--agui-good:#1a7f37;--agui-bad:#ad5600;--agui-key:#0550ae;--agui-string:#0a5c36;--agui-on:#fff;--agui-mark:#ffe58f;--agui-less:#ffd7d5;--agui-more:#c8f0d0;--agui-f-text:#2a6dca;
--agui-f-reasoning:#8456c7;--agui-f-tool:#9f5e22;--agui-f-state:#227c57;--agui-f-subagent:#bb3d88;--agui-f-run:#646f7c;--agui-f-waiting:#09748c;--agui-f-fault:#d12a34;color-scheme:light"""
_DARK = """--agui-fg:#e6edf3;--agui-dim:#9da7b3;--agui-line:#3d444d;--agui-edge:#7d8590;
--agui-soft:#20262d;--agui-user:#1d3a5f;
--agui-agent:#272e36;--agui-good:#4ac26b;--agui-bad:#f0a050;--agui-key:#79c0ff;--agui-string:#8ddb8c;--agui-on:#0d1117;--agui-mark:#5c4a00;--agui-less:#5c2224;--agui-more:#1d4a2c;--agui-f-text:#578fdc;
--agui-f-reasoning:#a07dd4;--agui-f-tool:#ce7a2c;--agui-f-state:#2ca171;--agui-f-subagent:#d06ea8;--agui-f-run:#858f9c;--agui-f-waiting:#5cc8e8;--agui-f-fault:#e16870;color-scheme:dark"""
_THEMES = f"""
.agui{{{_LIGHT}}}
@media (prefers-color-scheme:dark){{.agui{{{_DARK}}}}}
[data-jp-theme-light=true] .agui,.vscode-light .agui,[data-theme=light] .agui{{{_LIGHT}}}
[data-jp-theme-light=false] .agui,.vscode-dark .agui,[data-theme=dark] .agui{{{_DARK}}}
"""
_FAMILIES = {
    "text": "text",
    "reasoning": "reasoning",
    "tool": "tool",
    "state": "state",
    "subagent": "subagent",
    **dict.fromkeys(("run", "frame", "other"), "run"),
    "waiting": "waiting",
    "bad": "fault",
}
"""The colours of kinds of events."""
_COLOURS = "".join(
    f".agui-f-{name}{{background:var(--agui-f-{colour})}}.agui-n-{name}{{color:var(--agui-f-{colour})}}"
    for name, colour in _FAMILIES.items()
)
_RULES = """
.agui{color:var(--agui-fg);font:14px/1.45 system-ui,sans-serif;max-width:760px;overflow-wrap:anywhere;padding:2px}
.agui *{box-sizing:border-box;max-width:100%}
.agui-bubble{border-radius:10px;margin:6px 0;padding:6px 12px;width:fit-content;background:var(--agui-agent)}
.agui-user{background:var(--agui-user);margin-left:auto}
.agui-system{background:none;border:1px dashed var(--agui-line)}
.agui-author{color:var(--agui-dim);font-size:11px}
.agui.agui .agui-text :is(p,li){color:inherit;font:inherit;margin:4px 0}
.agui.agui .agui-text p{white-space:pre-wrap}
.agui.agui .agui-text :is(ul,ol){margin:4px 0;padding-left:22px}
.agui.agui .agui-text ul{list-style:disc}
.agui.agui .agui-text ol{list-style:decimal}
.agui.agui .agui-text li{display:list-item;margin:1px 0}
.agui.agui .agui-text :is(h1,h2,h3,h4,h5,h6){border:0;color:inherit;font:600 14px/1.4 system-ui,sans-serif;
letter-spacing:normal;margin:8px 0 4px;padding:0}
.agui.agui .agui-text h1{font-size:18px}
.agui.agui .agui-text h2{font-size:16px}
.agui.agui .agui-text h3{font-size:15px}
.agui.agui .agui-text :is(strong,b){font-weight:600}
.agui.agui .agui-text em{font-style:italic}
.agui.agui .agui-text hr{border:0;border-top:1px solid var(--agui-line);margin:8px 0}
.agui-code{position:relative}
.agui-copy{background:var(--agui-agent);border:1px solid var(--agui-line);border-radius:4px;color:var(--agui-dim);
cursor:pointer;font:12px system-ui,sans-serif;padding:1px 8px;position:absolute;right:4px;top:4px}
.agui-image{border-radius:6px;display:block;margin:6px 0;max-height:360px}
.agui-image-user{margin-left:auto}
.agui table{color:inherit;font:inherit;border-collapse:collapse;display:block;overflow-x:auto;overflow-wrap:break-word;
width:fit-content}
.agui.agui .agui-text blockquote{border-left:3px solid var(--agui-line);color:inherit;font:inherit;margin:4px 0;
padding:0 0 0 10px}
.agui .agui-text th,.agui .agui-text td{border:1px solid var(--agui-line);padding:2px 8px;text-align:start}
.agui .agui-text th{background:var(--agui-soft);font-weight:600}
.agui-text p,.agui-text li,.agui-text h1,.agui-text h2,.agui-text h3,.agui-text h4,.agui-text td,.agui-text th,.agui pre
{text-align:start;unicode-bidi:plaintext}
.agui.agui .agui-text .agui-task{list-style:none;margin-left:-18px}
.agui pre,.agui code{background:var(--agui-soft);border-radius:4px;color:inherit;font:12px/1.45 ui-monospace,monospace}
.agui.agui pre{background:var(--agui-soft);margin:4px 0;max-height:400px;overflow:auto;
padding:6px 8px;white-space:pre-wrap;overflow-wrap:anywhere}
.agui.agui .agui-text pre{overflow-wrap:normal;white-space:pre}
.agui.agui pre code{background:none;padding:0;white-space:inherit}
.agui .agui-text tr{background:none}
.agui [class^=agui-c-k],.agui .agui-c-nt{color:var(--agui-key)}
.agui [class^=agui-c-s],.agui .agui-c-gi{color:var(--agui-string)}
.agui [class^=agui-c-m],.agui .agui-c-gd{color:var(--agui-bad)}
.agui [class^=agui-c-c]{color:var(--agui-dim);font-style:italic}
.agui .agui-c-nf,.agui .agui-c-nc{font-weight:600}
.agui a{color:var(--agui-key)}
.agui-text a::after{color:var(--agui-dim);content:" (" attr(href) ")"}
.agui-line{font-size:12px;margin:3px 0}
.agui-fold{border-left:2px solid var(--agui-line);margin:5px 0;padding-left:10px}
.agui summary{cursor:pointer;font-size:12px;overflow-wrap:anywhere}
.agui-inside{margin:4px 0 4px 2px}
.agui-tree{font:12px/1.5 ui-monospace,monospace}
.agui-tree ul{list-style:none;margin:0;padding-left:14px}
.agui-tree>ul{padding-left:0}
.agui-key{color:var(--agui-key)}
.agui-tree .agui-text{color:var(--agui-string);white-space:pre-wrap}
.agui-timeline{margin:6px 0;font-size:11px}
.agui-lane{align-items:center;display:flex;gap:8px;margin:2px 0}
.agui-lane-name{flex:none;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;width:130px}
.agui-track{background:var(--agui-soft);display:flex;flex:1;height:14px;min-width:0;overflow:hidden}
.agui-track span{flex:none}
.agui-scale{color:var(--agui-dim);display:flex;justify-content:space-between;padding-left:138px}
.agui-end{border:1px solid var(--agui-line);border-radius:4px;display:flex;flex-direction:column-reverse;
max-height:320px;overflow:auto;padding:4px 6px}
.agui-moment{font-size:12px;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.agui-moment summary{overflow:hidden;text-overflow:ellipsis}
.agui-time{color:var(--agui-dim);display:inline-block;font-variant-numeric:tabular-nums;min-width:48px;text-align:right}
div.agui-moment{padding-left:14px}
.agui .agui-wide>.agui-rows>table{display:table;table-layout:fixed;width:100%}
.agui-wide>.agui-rows>table>thead>tr>th:first-child{width:24px}
.agui-wide .agui-moment{white-space:normal}
.agui-dim{color:var(--agui-dim)}.agui-good{color:var(--agui-good)}.agui-bad{color:var(--agui-bad)}
.agui-view{margin:5px 0;overflow-x:auto}
.agui-unfinished{color:var(--agui-dim);font-style:italic}
.agui-fold:has(>.agui-unfinished){border-left-style:dashed}
.agui-unfinished~.agui-inside .agui-tree{opacity:.65}
.agui-foot{align-items:center;display:flex;gap:10px;margin-top:6px}
.agui-stop{background:none;border:1px solid var(--agui-bad);border-radius:4px;color:var(--agui-bad);cursor:pointer;
font:600 12px system-ui,sans-serif;padding:2px 10px}
.agui-stop:disabled{cursor:default;opacity:.55}
.agui-flash{animation:agui-flash 4s ease-out;border-radius:3px}
.agui [data-was]::before{color:var(--agui-dim);content:attr(data-was) " → "}
.agui summary[data-changed]::after{color:var(--agui-bad);content:" · " attr(data-changed)}
@keyframes agui-flash{from{background:var(--agui-mark)}to{background:transparent}}
@media (prefers-reduced-motion:reduce){.agui-flash{animation:none;background:var(--agui-mark)}}
.agui-bar{background:var(--agui-soft);border:1px solid var(--agui-line);border-radius:4px;display:flex;height:12px;
margin:4px 0;overflow:hidden}
.agui-part-good{background:var(--agui-good)}.agui-part-bad{background:var(--agui-bad)}
.agui-rows{margin:6px 0;overflow-x:auto}
.agui.agui .agui-rows>table>thead>tr>th,.agui.agui .agui-rows>table>tbody>tr>td{
border-bottom:1px solid var(--agui-line);padding:3px 10px 3px 0;text-align:start;vertical-align:top;min-width:60px}
.agui.agui .agui-rows tr{background:none}
.agui:has(>.agui-sheet){max-width:none}
.agui.agui .agui-sheet>table{display:table;width:100%}
.agui.agui .agui-sheet>table>thead>tr>th{border-bottom:2px solid var(--agui-edge);white-space:nowrap}
.agui.agui .agui-rows>table>:is(thead,tbody)>tr>.agui-number{font-variant-numeric:tabular-nums;text-align:end;
white-space:nowrap}
.agui .agui-record>tr:not(.agui-below)>td:not(:first-child,:last-child,.agui-number){min-width:150px}
.agui-size{display:flex;height:3px;justify-content:flex-end;margin:0 0 3px;min-width:60px}
.agui-part-dim{background:var(--agui-edge)}
.agui-opener{margin:3px 0}
@supports selector(:has(a)){.agui-below{display:none}}
.agui-record:has(>tr>td>.agui-opener[open])>.agui-below{display:table-row}
.agui.agui .agui-record>.agui-below>td{padding:2px 0 12px 16px}
.agui-below>td>:not(.agui-wide){max-width:760px}
.agui-below>td>.agui-user{margin-right:max(0px,calc(100% - 760px))}
.agui-compared{font-size:13px;text-align:start;unicode-bidi:plaintext;white-space:pre-wrap}
.agui mark{border-radius:2px;color:inherit}
.agui .agui-before{background:var(--agui-less);text-decoration:line-through}
.agui .agui-after{background:var(--agui-more);font-weight:600}
.agui-charts{display:flex;flex-wrap:wrap;gap:6px 28px;margin:8px 0 14px}
.agui-chart-row{display:grid;gap:6px}
.agui-chart{align-items:flex-end;border-bottom:1px solid var(--agui-edge);display:flex;gap:1px;height:36px;width:240px}
.agui-chart span{flex:1 1 0;max-width:12px;min-height:1px}
.agui-sort{all:unset;cursor:pointer}
.agui-sort:hover{text-decoration:underline}
.agui th:not([aria-sort]) .agui-sort::after{color:var(--agui-dim);content:" ⇅"/"";font-weight:400}
.agui-sort:focus-visible{outline:2px solid var(--agui-key)}
.agui th[aria-sort=ascending] .agui-sort::after{content:" ▲"/""}
.agui th[aria-sort=descending] .agui-sort::after{content:" ▼"/""}
.agui-rows .agui-fold{border:0;margin:3px 0;padding:0}
.agui[id^=agui-asked-]{animation:agui-late 1ms 4s backwards}
@keyframes agui-late{from,to{height:0;overflow:hidden;padding:0;visibility:hidden}}
"""
STYLE = _THEMES + _RULES + _COLOURS
"""The style sheet of everything that is displayed."""
FORM_STYLE = """
.agui-panel{border:1px solid var(--agui-edge);border-left:3px solid var(--agui-key);border-radius:6px;padding:10px 12px}
.agui-question{white-space:pre-wrap}
.agui-field{margin:10px 0}
.agui-field>label,.agui-group>legend{display:block;font-size:13px;font-weight:600}
.agui-needed{color:var(--agui-bad);font-weight:600}
.agui.agui-panel .agui-body{border:0;margin:0;min-width:0;padding:0}
.agui.agui-panel :is(input:not([type=checkbox],[type=radio]),textarea,select){background:var(--agui-soft);
border:1px solid var(--agui-edge);border-radius:4px;color:inherit;display:block;font:14px/1.4 system-ui,sans-serif;
margin:3px 0 0;min-height:32px;padding:4px 8px;width:100%}
.agui.agui-panel :is(input:is([type=date],[type=time],[type=datetime-local],[type=search],[list]),select){width:260px}
.agui.agui-panel input.agui-short:not([type=checkbox],[type=radio]){width:260px}
.agui.agui-panel textarea{resize:vertical}
.agui.agui-panel ::placeholder{color:var(--agui-dim);opacity:1}
.agui.agui-panel .agui-mono{font:13px/1.45 ui-monospace,monospace}
.agui.agui-panel :is(input,textarea):read-only:not([type=checkbox],[type=radio]){background:none;border-style:dashed}
.agui.agui-panel [aria-invalid=true]{border-color:var(--agui-bad);box-shadow:0 0 0 1px var(--agui-bad)}
.agui-zoned{align-items:center;display:flex;gap:8px}
.agui-boxes{border-radius:4px;display:flex;flex-wrap:wrap;gap:2px 18px;margin:3px 0 0;padding:2px 0}
.agui-boxes[aria-invalid=true]{padding:2px 6px}
.agui-box{align-items:center;display:flex;font-size:14px;gap:6px;min-height:28px}
.agui.agui-panel .agui-box input{accent-color:var(--agui-key);height:16px;margin:0;width:16px}
.agui-box>label{font-weight:600;font-size:13px}
.agui-box[hidden]{display:none}
.agui-many{border:1px solid var(--agui-edge);max-height:150px;overflow:auto;padding:4px 8px}
.agui-entry{border-bottom:1px solid var(--agui-line);padding:0 0 8px;margin:0 0 8px}
.agui.agui-panel .agui-entry>.agui-group{border:0;margin:0;padding:0}
.agui-small{background:none;border:1px solid var(--agui-edge);border-radius:4px;color:inherit;cursor:pointer;
font:13px system-ui,sans-serif;margin:4px 6px 4px 0;padding:2px 10px}
.agui.agui-panel .agui-group{border:1px solid var(--agui-edge);border-radius:6px;margin:12px 0;min-width:0;
padding:2px 12px}
.agui-group>legend{padding:0 4px}
.agui-entry>.agui-group>legend{padding:0}
.agui-field>.agui-problem{margin-top:3px}
.agui-panel:focus{outline:2px solid var(--agui-key)}
.agui-panel :focus-visible{outline:2px solid var(--agui-key);outline-offset:1px}
.agui-choices{display:flex;flex-wrap:wrap;gap:8px;margin:10px 0 0}
.agui-choices button{background:none;border:1px solid var(--agui-edge);border-radius:4px;color:inherit;cursor:pointer;
font:600 13px system-ui,sans-serif;padding:5px 14px}
.agui-choices .agui-choice-good{background:var(--agui-good);border-color:var(--agui-good);color:var(--agui-on)}
.agui-choices .agui-choice-bad{border-color:var(--agui-bad);color:var(--agui-bad)}
.agui-choices .agui-choice-quiet{border-color:transparent;color:var(--agui-dim);font-weight:400;
text-decoration:underline}
.agui-panel :disabled{cursor:default;opacity:.55}
.agui-problem{font-size:13px;margin-top:6px;white-space:pre-wrap}
.agui-problem:empty{display:none}
"""
"""The rules for the fields and buttons of questions, which no saved output has."""
