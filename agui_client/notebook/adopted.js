// Widgets of cells that still run, on a page that has no output for them: it was opened anew before the notebook was
// saved, or another page runs the cell. They get a place at the edge of the page; stands before scripts that have one.

const LATE = 3000, DRAWN = "agui-drawn", DOCK = "agui-dock";
const DOCK_STYLE = "background:var(--jp-layout-color1,Canvas);border:1px solid #7a8490;border-radius:6px;bottom:12px;"
  + "box-shadow:0 2px 12px #0005;max-height:75vh;overflow:auto;padding:8px;position:fixed;right:12px;"
  + "width:min(560px,calc(100vw - 24px));z-index:1000";

function dock() {
  const known = document.getElementById(DOCK);
  if (known) return known;
  const made_new = document.createElement("aside");
  made_new.id = DOCK;
  made_new.style.cssText = DOCK_STYLE;
  made_new.setAttribute("aria-label", "A cell of this notebook that is running");
  document.body.append(made_new);
  return made_new;
}

const remove_from_dock = (box) => {
  box.remove();
  const left = document.getElementById(DOCK);
  if (left?.childElementCount === 0) left.remove();
};

// Says that an output has the widget.
const drawn_in_output = (key) => document.dispatchEvent(new CustomEvent(DRAWN, { detail: key }));

// Draws a widget at the edge of the page, unless an output has it. Returns what ends that.
function adopt(key, draw) {
  let box = null, leave = null;
  const timer = setTimeout(() => {
    box = document.createElement("div");
    dock().append(box);
    leave = draw(box);
  }, LATE);
  const end = () => {
    clearTimeout(timer);
    document.removeEventListener(DRAWN, follow);
    leave?.();
    if (box !== null) remove_from_dock(box);
  };
  const follow = ({ detail }) => { if (detail === key) end(); };
  document.addEventListener(DRAWN, follow);
  return end;
}

// Leaves what a widget at the edge of the page became in the end, until the user closes it.
function leave_in_dock(el, html) {
  if (!el.closest(`#${DOCK}`)) return;
  const left = document.createElement("div"), close = document.createElement("button");
  left.innerHTML = html;
  close.type = "button";
  close.textContent = "Close";
  close.addEventListener("click", () => remove_from_dock(left));
  left.append(close);
  dock().append(left);
}
