// Shows a surface below a cell: the kernel paints it, and gets what is entered and pressed.
// The kernel's HTML has no script and no address but links; everything that an agent wrote is escaped in it.

const value_of = (field) => {
  const name = field.getAttribute("name");
  if (field.type !== "checkbox" && field.type !== "radio") return field.type === "range" ? Number(field.value) : field.value;
  if (!name) return field.checked;
  const group = field.closest(".agui-surface").querySelectorAll(`[name="${CSS.escape(name)}"]`);
  return [...group].filter((each) => each.checked).map((each) => each.value);
};

function render({ model, el }) {
  const { style, rules, classes } = model.get("shown");
  // The same surface may stand on a page twice: in a form of its own, its boxes are a group of their own.
  const sheet = document.createElement("style"), root = document.createElement("form");
  sheet.textContent = style + rules;
  root.className = classes;
  keep_keys(root);
  const sent = new Map();
  const key = (field) => JSON.stringify([field.dataset.set ?? field.dataset.press, field.dataset.at, field.value && field.type === "radio" ? field.value : ""]);
  const enter = (field) => {
    const value = value_of(field), text = JSON.stringify(value);
    if (sent.get(key(field)) === text) return;
    sent.set(key(field), text);
    model.send({ set: field.dataset.set, at: field.dataset.at, value });
  };
  // The focus and what is being typed stay while the kernel paints anew.
  const paint = (html) => {
    const active = root.contains(document.activeElement) ? document.activeElement : null;
    const name = active?.dataset?.set !== undefined || active?.dataset?.press !== undefined ? key(active) : null;
    const typed = active?.value, start = active?.selectionStart, end = active?.selectionEnd;
    root.innerHTML = html;
    // The kernel knows what was sent; the agent may have replaced it, and then it may be entered again.
    sent.clear();
    for (const each of root.querySelectorAll("[data-weight]")) each.style.flex = `${each.dataset.weight} 1 0`;
    if (name === null) return;
    const again = [...root.querySelectorAll("[data-set], [data-press]")].find((each) => key(each) === name);
    if (again === undefined) return;
    if (typed !== undefined && again.type !== "checkbox" && again.type !== "radio" && again.dataset.set !== undefined) again.value = typed;
    again.focus();
    try { again.setSelectionRange(start, end); } catch { /* not a field of text */ }
  };
  const waiting = document.createElement("div");
  waiting.setAttribute("role", "status");
  const pressing = presses(
    model,
    (is_locked) => { root.inert = is_locked; },
    (sentence) => { waiting.textContent = sentence; },
  );
  root.addEventListener("change", (event) => {
    if (event.target.dataset.set !== undefined) enter(event.target);
  });
  root.addEventListener("keydown", (event) => event.stopPropagation());
  root.addEventListener("submit", (event) => event.preventDefault());
  root.addEventListener("click", (event) => {
    const button = event.target.closest("[data-press]");
    if (button === null) return;
    // A field that still has the focus may not have reported its change.
    const active = document.activeElement;
    if (root.contains(active) && active.dataset.set !== undefined) enter(active);
    pressing.press(button.textContent, { press: button.dataset.press, at: button.dataset.at });
  });
  const receive = (message) => {
    if (pressing.receive(message) || message.html === undefined) return;
    pressing.end();
    paint(message.html);
  };
  model.on("msg:custom", receive);
  el.append(sheet, root, waiting);
  paint(model.get("shown").html);
  return () => {
    model.off("msg:custom", receive);
    pressing.end();
  };
}

export default { render };
