// The style sheet and the script of the report page. The script has no '<' and no '&', so that the
// page is well-formed XML as well.
#pragma once

#include <string_view>

namespace penstock::tune {

inline constexpr std::string_view kBenchStyle = R"css(
:root {
  color-scheme: light dark;
  --page: #f4f6f9; --card: #ffffff; --ink: #16202e; --soft: #5b6879; --line: #e1e6ed;
  --grid: #e9edf2; --accent: #1668dc; --accent-soft: #e8f1fd; --warn: #b45309;
  --c0: #1668dc; --c1: #e8710a; --c2: #0f9d6e; --c3: #8e44d6; --c4: #d6336c; --c5: #0891b2;
  --c6: #9a7b00; --c7: #64748b;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #0e141b; --card: #161e28; --ink: #e6ecf3; --soft: #93a1b3; --line: #263241;
    --grid: #222d3a; --accent: #6aa8ff; --accent-soft: #16283f; --warn: #f5a94c;
    --c0: #6aa8ff; --c1: #ff9f4a; --c2: #3ecf9a; --c3: #c08bff; --c4: #ff7aa8; --c5: #46c9e5;
    --c6: #e0bf4a; --c7: #a3b1c4;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
}
main { max-width: 1240px; margin: 0 auto; padding: 32px 24px 48px; }
header h1 { margin: 0; font-size: 28px; font-weight: 650; letter-spacing: -0.01em; overflow-wrap: anywhere; }
header h1 small { display: block; font-size: 13px; font-weight: 600; letter-spacing: 0.08em;
  text-transform: uppercase; color: var(--accent); margin-bottom: 4px; }
header p { margin: 6px 0 0; color: var(--soft); }
h2 { font-size: 19px; font-weight: 650; margin: 36px 0 14px; letter-spacing: -0.01em; }
.notice { margin: 16px 0 0; padding: 10px 14px; border-left: 4px solid var(--warn);
  background: var(--card); border-radius: 6px; }
.tiles { display: grid; gap: 14px; margin-top: 24px;
  grid-template-columns: repeat(auto-fit, minmax(170px, 1fr)); }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 14px 16px; }
.tile b { display: block; font-size: 25px; font-weight: 650; letter-spacing: -0.02em;
  font-variant-numeric: tabular-nums; white-space: nowrap; }
.tile span { display: block; color: var(--soft); font-size: 13px; }
.findings { list-style: none; margin: 0; padding: 10px 20px; background: var(--card);
  border: 1px solid var(--line); border-radius: 12px; columns: 2 460px; column-gap: 44px; }
.findings li { padding: 9px 0 9px 20px; position: relative; break-inside: avoid; line-height: 1.45; text-wrap: pretty; }
.findings li::before { content: ""; position: absolute; left: 0; top: 17px; width: 7px; height: 7px;
  border-radius: 50%; background: var(--accent); }
.findings em { display: block; font-style: normal; color: var(--soft); font-size: 13.5px; }
.charts { display: grid; gap: 18px; grid-template-columns: repeat(auto-fit, minmax(min(100%, 480px), 1fr));
  align-items: stretch; }
.card { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: 12px;
  padding: 16px 18px 12px; min-width: 0; }
.charts > .flat:last-child:nth-child(odd) { grid-column: 1 / -1; }
.card h3 { margin: 0; font-size: 15.5px; font-weight: 650; }
.card p { margin: 2px 0 0; color: var(--soft); font-size: 13px; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 16px; margin: 10px 0 2px; font-size: 13px; }
.legend i { display: inline-block; width: 18px; height: 4px; border-radius: 2px; margin-right: 7px;
  vertical-align: middle; }
svg { display: block; width: 100%; height: auto; margin-top: 8px; }
svg text { font: 12.5px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
.label { fill: var(--soft); font-variant-numeric: tabular-nums; } .axis { fill: var(--soft); }
.grid { stroke: var(--grid); } .tick { stroke: var(--line); }
.line { fill: none; stroke-width: 2.4; stroke-linejoin: round; stroke-linecap: round; }
.area { opacity: 0.16; } .dot { stroke: var(--card); stroke-width: 1.2; }
.hit { fill: transparent; cursor: crosshair; }
.bars { margin-top: 12px; }
.bar { display: grid; grid-template-columns: minmax(110px, 34%) 1fr 92px; gap: 12px; align-items: center;
  padding: 5px 0; font-size: 13.5px; }
.bar .track { background: var(--grid); border-radius: 4px; height: 16px; overflow: hidden; }
.bar .track i { display: block; height: 100%; border-radius: 4px; min-width: 2px; }
.bar .value { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.c0 { background: var(--c0); } .c1 { background: var(--c1); } .c2 { background: var(--c2); }
.c3 { background: var(--c3); } .c4 { background: var(--c4); } .c5 { background: var(--c5); }
.c6 { background: var(--c6); } .c7 { background: var(--c7); }
.s0 { stroke: var(--c0); } .s1 { stroke: var(--c1); } .s2 { stroke: var(--c2); }
.s3 { stroke: var(--c3); } .s4 { stroke: var(--c4); } .s5 { stroke: var(--c5); }
.s6 { stroke: var(--c6); } .s7 { stroke: var(--c7); }
.f0 { fill: var(--c0); } .f1 { fill: var(--c1); } .f2 { fill: var(--c2); } .f3 { fill: var(--c3); }
.f4 { fill: var(--c4); } .f5 { fill: var(--c5); } .f6 { fill: var(--c6); } .f7 { fill: var(--c7); }
.scroll { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: 12px; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; font-variant-numeric: tabular-nums; }
th, td { padding: 6px 12px; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 600; font-size: 12.5px; }
th:first-child, td:first-child { text-align: left; }
tbody tr:last-child td { border-bottom: 0; }
tr.section td { font-weight: 650; background: var(--accent-soft); }
td.skipped { text-align: left; color: var(--soft); white-space: normal; }
.facts { display: grid; grid-template-columns: max-content 1fr; gap: 4px 20px; margin: 0;
  background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 14px 18px; }
.facts dt { color: var(--soft); } .facts dd { margin: 0; overflow-wrap: anywhere; }
#tip { position: fixed; pointer-events: none; z-index: 9; background: var(--ink); color: var(--page);
  padding: 6px 10px; border-radius: 6px; font-size: 12.5px; line-height: 1.4; white-space: pre-line;
  max-width: 320px; opacity: 0; transition: opacity 0.1s; }
footer { margin-top: 32px; color: var(--soft); font-size: 13px; }
@media (max-width: 560px) {
  main { padding: 20px 14px 32px; }
  .bar { grid-template-columns: 1fr 84px; } .bar .track { grid-column: 1 / -1; grid-row: 2; }
}
@media print {
  :root { --page: #fff; --card: #fff; --ink: #000; --soft: #444; --line: #ccc; --grid: #e5e5e5; }
  body { font-size: 11pt; } main { max-width: none; padding: 0; }
  .card, .tile, .findings li, tr { break-inside: avoid; } h2 { break-after: avoid; }
  .charts { grid-template-columns: 1fr 1fr; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
)css";

inline constexpr std::string_view kBenchScript = R"js(
(function () {
  var tip = document.getElementById("tip");
  document.addEventListener("pointermove", function (event) {
    var over = event.target.closest ? event.target.closest("[data-tip]") : null;
    if (!over) { tip.style.opacity = 0; return; }
    tip.textContent = over.getAttribute("data-tip");
    var left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8);
    var top = event.clientY - tip.offsetHeight - 12;
    if (4 > top) { top = event.clientY + 18; }
    tip.style.left = Math.max(4, left) + "px";
    tip.style.top = top + "px";
    tip.style.opacity = 1;
  });
})();
)js";

}  // namespace penstock::tune
