// Draws a run that is in progress below a cell. The kernel sends what is new of the HTML of each block; the page changes only
// what differs, so that folds stay as the reader left them, selected text stays selected, and the place on the page, too.

const FLASH = 4000;

// What the reader opened or closed survives: the widget and the static output that takes its place have the same folds.
function foldKeys(root) {
  const counts = new Map(), keys = new Map();
  for (const fold of root.querySelectorAll("details")) {
    const outer = keys.get(fold.parentElement.closest("details")) ?? "";
    const name = fold.firstElementChild?.textContent.trim().split(/\s/)[0] ?? "";
    const place = `${outer}/${name}`, count = (counts.get(place) ?? 0) + 1;
    counts.set(place, count);
    keys.set(fold, `${place}#${count}`);
  }
  return keys;
}

function changedPlace(span) {
  const keys = [];
  for (let row = span.closest("li"); row; row = row.parentElement.closest("li"))
    keys.unshift(row.querySelector(".agui-key")?.textContent ?? "");
  return keys.join(".");
}

// The text of a value that changed shows for a moment what it was.
function flash(element, before, changes) {
  if (!changes || !element?.closest(".agui-tree")) return;
  const now = element.textContent;
  element.classList.add("agui-flash");
  if (before !== "") element.dataset.was = before;
  changes.push(`${changedPlace(element)} ${before === "" ? "" : before + " → "}${now}`.trim());
  clearTimeout(element.aguiFlash);
  element.aguiFlash = setTimeout(() => {
    element.classList.remove("agui-flash");
    delete element.dataset.was;
  }, FLASH);
}

function morph(old, fresh, touched, changes) {
  for (const { name, value } of [...fresh.attributes]) {
    if (name === "open" ? !touched.has(old) : name !== "class" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (fresh.className !== old.className && !old.classList.contains("agui-flash")) old.className = fresh.className;
  if (old.tagName === "DETAILS" && !touched.has(old) && !fresh.hasAttribute("open")) old.removeAttribute("open");
  const olds = [...old.childNodes], newOnes = [...fresh.childNodes];
  newOnes.forEach((node, place) => {
    const known = olds[place];
    if (!known) {
      old.append(node);
      if (node.nodeType === 1) flash(node.tagName === "LI" ? node.querySelector(".agui-value,.agui-text") : node, "", changes);
    } else if (known.nodeType === 3 && node.nodeType === 3) {
      if (known.data === node.data) return;
      const before = known.data;
      if (node.data.startsWith(before)) known.appendData(node.data.slice(before.length));
      else known.data = node.data;
      if (old.matches(".agui-value,.agui-text")) flash(old, before, changes);
    } else if (known.nodeType === 1 && node.nodeType === 1 && known.tagName === node.tagName) {
      morph(known, node, touched, changes);
    } else known.replaceWith(node);
  });
  for (const left of olds.slice(newOnes.length)) left.remove();
}

function draw_run({ model, el }) {
  const { style, classes, replaced_by } = model.get("shown");
  const root = document.createElement("div"), sheet = document.createElement("style"), foot = document.createElement("div");
  const stop = document.createElement("button"), line = document.createElement("span"), chat = document.createElement("div");
  sheet.textContent = style;
  root.className = `${classes} agui-live`;
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", "Agent");
  chat.setAttribute("aria-live", "polite");
  chat.setAttribute("aria-relevant", "additions text");
  foot.className = "agui-foot";
  line.className = "agui-line agui-dim";
  stop.type = "button";
  stop.textContent = "Stop";
  stop.className = "agui-stop";
  stop.addEventListener("click", () => {
    stop.disabled = true;
    model.send({ stop: true });
  });
  foot.append(stop, line);
  root.append(chat, foot);
  el.append(sheet, root);

  const blocks = new Map();  // by key: the HTML, and the element that it became
  const touched = new WeakSet();
  root.addEventListener("click", (event) => {
    const fold = event.target.closest("summary")?.parentElement;
    if (fold) touched.add(fold);
  });
  let number = -1;

  const draw = (key, html, place) => {
    const holder = document.createElement("template");
    holder.innerHTML = html;
    const fresh = holder.content.firstElementChild, known = blocks.get(key);
    let shown = known?.shown;
    if (shown && shown.tagName === fresh.tagName) {
      const changes = key === "state" ? [] : null;
      morph(shown, fresh, touched, changes);
      const summary = shown.tagName === "DETAILS" ? shown.firstElementChild : null;
      if (summary && changes?.length) summary.dataset.changed = changes.slice(0, 4).join(", ") + (changes.length > 4 ? ", …" : "");
    } else {
      shown?.remove();
      shown = fresh;
    }
    if (chat.children[place] !== shown) chat.insertBefore(shown, chat.children[place] ?? null);
    blocks.set(key, { html, shown });
  };

  let ended = null, host = null;
  requestAnimationFrame(() => { host = el.closest(".jp-OutputArea-child") ?? el.parentElement; });
  const receive = (message) => {
    if (message.ended !== undefined) {
      ended = message.ended;
      return leave_in_dock(el, ended);
    }
    if (message.whole === undefined && message.number !== number + 1) return;
    number = message.number;
    const isFollowing = root.getBoundingClientRect().bottom <= window.innerHeight;
    for (const [key, { shown }] of blocks) {
      if (message.keys.includes(key)) continue;
      shown.remove();
      blocks.delete(key);
    }
    for (const [key, start, end, fresh] of message.changes) {
      const html = message.whole ? "" : blocks.get(key)?.html ?? "";
      draw(key, html.slice(0, start) + fresh + html.slice(html.length - end), message.keys.indexOf(key));
    }
    line.textContent = message.line;
    stop.hidden = !message.can_stop;
    if (isFollowing && root.getBoundingClientRect().bottom > window.innerHeight) foot.scrollIntoView({ block: "end" });
  };
  model.on("msg:custom", receive);
  model.send({ ready: true });

  return () => {
    model.off("msg:custom", receive);
    const states = new Map();
    for (const [fold, key] of foldKeys(root)) if (touched.has(fold)) states.set(key, fold.open);
    const restore = () => {
      const left = document.getElementById(replaced_by);
      if (!left) return false;
      for (const [fold, key] of foldKeys(left)) if (states.has(key)) fold.open = states.get(key);
      return true;
    };
    if (restore()) return;
    const observer = new MutationObserver(() => restore() && observer.disconnect());
    observer.observe(document.body, { childList: true, subtree: true });
    setTimeout(() => observer.disconnect(), 5000);
    // On a page that was opened again, the kernel can replace no output: what the run became stays here.
    setTimeout(() => {
      if (ended !== null && host?.isConnected && !host.closest(`#${DOCK}`) && !document.getElementById(replaced_by)) host.insertAdjacentHTML("beforeend", ended);
    }, 1000);
  };
}

const key = (model) => model.get("shown").replaced_by;
const initialize = ({ model }) => adopt(key(model), (el) => draw_run({ model, el }));
function render({ model, el }) {
  drawn_in_output(key(model));
  return draw_run({ model, el });
}

export default { initialize, render };
