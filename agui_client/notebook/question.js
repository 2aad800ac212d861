// Draws a question below a cell, and sends what stands in its fields with the button that is pressed.
// Text only: nothing that is shown here is read as HTML, and no TeX is drawn.

const made = (tag, attributes = {}, ...inside) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...inside);
  return element;
};
const clicked = (label, text, act) => {
  const button = made("button", { type: "button", class: "agui-small", "aria-label": label }, text);
  button.addEventListener("click", act);
  return button;
};
const needed = () => made("span", { class: "agui-needed", "aria-hidden": "true" }, " *");

let number = 0;

// A moment as a field for dates and times has it, by the clock of the person, and back with its zone.
const local = (text) => {
  const moment = new Date(text);
  return isNaN(moment) ? "" : new Date(moment - moment.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
};
const offset = (text) => {
  const minutes = -new Date(text || Date.now()).getTimezoneOffset();
  const two = (count) => String(Math.abs(Math.trunc(count))).padStart(2, "0");
  return `${minutes < 0 ? "-" : "+"}${two(minutes / 60)}:${two(minutes % 60)}`;
};
const zoned = (text) => `${text.length < 19 ? `${text}:00` : text}${offset(text)}`;

// --- controls: each has its element, the element that takes the focus, what stands on the screen (`raw`), what of it is
// sent (`read`), and `write`, which puts a text that was sent back on the screen

function line(field, attributes) {
  const is_moment = field.type === "datetime-local";
  const input = made("input", { ...attributes, type: field.type, autocomplete: "off", ...(field.mode ? { inputmode: field.mode, class: "agui-short" } : {}) });
  input.readOnly = field.is_read_only;
  const write = (text) => { input.value = is_moment ? local(text) : text; };
  write(field.stands);
  // What a browser cannot read as a date has no value of its own; it must not count as left out.
  const read = () => input.validity.badInput ? "?" : is_moment && input.value ? zoned(input.value) : input.value;
  if (!is_moment) return { element: input, first: input, raw: read, read, write };
  const zone = made("span", { class: "agui-line agui-dim" });
  const show = () => { zone.textContent = ` ${offset(input.value)} ${Intl.DateTimeFormat().resolvedOptions().timeZone}`; };
  input.addEventListener("input", show);
  show();
  return { element: made("div", { class: "agui-zoned" }, input, zone), first: input, raw: read, read, write };
}

function area(field, attributes) {
  const input = made("textarea", { ...attributes, rows: field.rows, spellcheck: "false" });
  const is_list = field.control === "lines";
  if (field.control === "json") input.className = "agui-mono";
  input.value = field.stands;
  input.readOnly = field.is_read_only;
  const lines = () => input.value.split("\n").map((each) => each.trim()).filter(Boolean);
  const read = () => is_list ? JSON.stringify(lines()) : input.value;
  const write = (text) => { input.value = is_list ? JSON.parse(text || "[]").join("\n") : text; };
  return { element: input, first: input, raw: () => input.value, read, write };
}

function select(field, attributes) {
  const options = ["", ...field.choices].map((choice, place) =>
    made("option", { value: choice }, place ? field.shown_choices[place - 1] : "—"));
  const input = made("select", attributes, ...options);
  input.disabled = field.is_read_only;
  const write = (text) => { input.value = text; };
  write(field.stands);
  return { element: input, first: input, raw: () => input.value, read: () => input.value, write };
}

// A list that is too long to look through: a part of a title finds it.
function search(field, attributes) {
  const titles = field.shown_choices, list = made("datalist", { id: `${attributes.id}-list` }, ...titles.map((each) => made("option", { value: each })));
  const input = made("input", { ...attributes, type: "text", list: list.id, autocomplete: "off", placeholder: `search in ${titles.length}` });
  input.readOnly = field.is_read_only;
  const title = (text) => titles[field.choices.indexOf(text)] ?? text;
  input.value = title(field.stands);
  const read = () => {
    const typed = input.value.trim(), same = (each) => each.toLowerCase() === typed.toLowerCase();
    const place = titles.includes(typed) ? titles.indexOf(typed) : titles.findIndex(same);
    return place >= 0 ? field.choices[place] : /^\d+$/.test(typed) ? "?" : typed;
  };
  const write = (text) => { input.value = title(text); };
  return { element: made("div", {}, input, list), first: input, raw: () => input.value, read, write };
}

function box(field, attributes) {
  const input = made("input", { ...attributes, type: "checkbox" });
  input.checked = field.stands === "yes";
  input.disabled = field.is_read_only;
  // A box that was checked and unchecked says no; one that nobody touched says nothing.
  let is_touched = false;
  input.addEventListener("change", () => { is_touched = true; });
  const read = () => input.checked ? "yes" : "no";
  const write = (text) => {
    is_touched = true;
    input.checked = text === "yes";
  };
  return { element: input, first: input, raw: () => is_touched ? read() : "", read, write };
}

function boxes(field, attributes) {
  const is_radio = field.control === "radio";
  const { id, ...rest } = attributes;
  const inputs = field.choices.map(() => {
    const input = made("input", { type: is_radio ? "radio" : "checkbox", name: id });
    input.disabled = field.is_read_only;
    return input;
  });
  const write = (text) => {
    const checked = is_radio ? [text] : JSON.parse(text || "[]");
    inputs.forEach((input, place) => { input.checked = checked.includes(field.choices[place]); });
  };
  write(field.stands);
  const rows = inputs.map((input, place) => made("label", { class: "agui-box", dir: "auto" }, input, field.shown_choices[place]));
  const all = made("div", { ...rest, role: is_radio ? "radiogroup" : "group", class: "agui-boxes" }, ...rows);
  const chosen = () => field.choices.filter((_, place) => inputs[place].checked);
  const read = () => is_radio ? chosen()[0] ?? "" : JSON.stringify(chosen());
  const is_long = rows.length > MOST_BOXES;
  if (is_long) all.classList.add("agui-many");
  return { element: is_long ? made("div", {}, filter(rows, id), all) : all, marked: all, first: inputs[0], raw: read, read, write };
}

const MOST_BOXES = 12;
function filter(rows, id) {
  const input = made("input", { type: "search", placeholder: `search in ${rows.length}`, "aria-label": `search in ${rows.length}`, id: `${id}-search` });
  input.addEventListener("input", () => {
    const wanted = input.value.trim().toLowerCase();
    for (const each of rows) each.hidden = !each.textContent.toLowerCase().includes(wanted) && !each.firstChild.checked;
  });
  return input;
}

const CONTROLS = { line, area, json: area, lines: area, select, search, box, radio: boxes, boxes };

// --- nodes: each has its element, `collect` and `restore`, which write and read texts by names, and `describe`, which shows
// the problems of its names and takes them out

function leaf(field, id, form) {
  const has_boxes = field.control === "radio" || field.control === "boxes", is_box = field.control === "box";
  const about = field.description ? [made("div", { class: "agui-line agui-dim", id: `${id}-about`, dir: "auto" }, field.description)] : [];
  const mark = field.is_needed ? [needed()] : [];
  const attributes = { id, dir: "auto", ...(has_boxes ? { "aria-labelledby": `${id}-label` } : {}) };
  if (field.is_needed && field.control !== "boxes") attributes["aria-required"] = "true";
  if (field.enters) attributes["data-enters"] = field.enters;
  const control = CONTROLS[field.control](field, attributes), before = control.raw();
  const marked = control.marked ?? (has_boxes ? control.element : control.first);
  const problem = made("div", { class: "agui-problem agui-bad", id: `${id}-problem`, dir: "auto" });
  const label = made("label", { ...(has_boxes ? {} : { for: id }), id: `${id}-label`, dir: "auto" }, field.label, ...mark);
  const asked = made("div", { class: "agui-line agui-dim", dir: "auto" });
  const inside = is_box ? [made("div", { class: "agui-box" }, control.element, label), ...about] : [label, ...about, control.element];
  const element = made("div", { class: "agui-field" }, ...inside, asked, problem);
  const compare = () => {
    const was = has_boxes || is_box || field.control === "select" ? field.value : before;
    asked.textContent = form.is_call && control.raw() !== before ? `the agent asked for: ${was || "nothing"}` : "";
  };
  element.addEventListener("input", compare);
  element.addEventListener("change", compare);
  const describe = (name, problems) => {
    const text = problems[name] ?? "";
    delete problems[name];
    problem.textContent = text;
    const ids = [...(about.length ? [`${id}-about`] : []), ...(text ? [`${id}-problem`] : [])].join(" ");
    ids ? marked.setAttribute("aria-describedby", ids) : marked.removeAttribute("aria-describedby");
    text ? marked.setAttribute("aria-invalid", "true") : marked.removeAttribute("aria-invalid");
  };
  describe("", {});
  return {
    element,
    // What nobody touched is sent as it came, to the last digit.
    collect: (name, values) => { values[name] = control.raw() === before ? field.value : control.read(); },
    restore: (name, values) => {
      if (values[name] === undefined || values[name] === field.value) return;
      control.write(values[name]);
      compare();
    },
    is_secret: field.type === "password",
    describe,
  };
}

// The frame around fields, with a line for a problem of the whole.
function frame(field, id, ...inside) {
  const problem = made("div", { class: "agui-problem agui-bad", dir: "auto" });
  const about = field.description ? [made("div", { class: "agui-line agui-dim", dir: "auto" }, field.description)] : [];
  const mark = field.is_needed && field.control !== "group" ? [needed()] : [];
  const legend = made("legend", { dir: "auto" }, field.label, ...mark);
  const element = made("fieldset", { class: "agui-group", id }, legend, ...about, ...inside, problem);
  const describe = (name, problems) => {
    problem.textContent = problems[name] ?? "";
    problem.textContent ? element.setAttribute("aria-invalid", "true") : element.removeAttribute("aria-invalid");
    delete problems[name];
  };
  return { element, describe };
}

function group(field, id, form, is_bare = false) {
  const place = made("div");
  let nodes = null;
  const open = () => {
    nodes = nodes ?? field.fields.map((each, at) => [each.name, node(each, `${id}-${at}`, form)]);
    place.replaceChildren(...nodes.map(([, each]) => each.element));
  };
  let is_open = field.is_open;
  if (is_open) open();
  const each_node = (act) => { if (is_open) nodes.forEach(([name, each]) => act(each, name)); };
  const toggle = clicked(field.label, "", () => {
    is_open = !is_open;
    if (is_open) open(); else place.replaceChildren();
    name_toggle();
    place.querySelector("input, select, textarea")?.focus();
  });
  const name_toggle = () => {
    toggle.textContent = is_open ? "Remove" : "Add";
    toggle.setAttribute("aria-label", `${toggle.textContent} ${field.label}`);
  };
  name_toggle();
  const outer = is_bare ? { element: place, describe: () => {} } : frame(field, id, place, ...(field.is_needed ? [] : [toggle]));
  return {
    element: outer.element,
    collect: (name, values) => {
      if (!field.is_needed) values[name] = is_open ? "yes" : "";
      each_node((each, own) => each.collect(name + own, values));
    },
    restore: (name, values) => {
      if (values[name] !== undefined && (values[name] === "yes") !== is_open) toggle.click();
      each_node((each, own) => each.restore(name + own, values));
    },
    describe: (name, problems) => {
      each_node((each, own) => each.describe(name + own, problems));
      outer.describe(name, problems);
    },
  };
}

// The entries of a list, or, with names of their own, of a map.
function rows(field, id, form) {
  const entries = new Map(), place = made("div"), is_map = field.control === "map";
  let next = 0;
  const title = (at) => `${field.title} ${at + 1}`;
  const add = (spec, key = "", at = next) => {
    next = Math.max(next, at + 1);
    const named = [title(at), spec.title].filter(Boolean).join(" · ");
    const own = node({ ...spec, label: spec.hint ? `${named} (${spec.hint})` : named }, `${id}-${at}`, form), name = made("input", { id: `${id}-${at}-name`, type: "text", autocomplete: "off", dir: "auto", "aria-label": `Name in ${field.title}` });
    name.value = key;
    const remove = clicked(`Remove ${title(at)}`, "Remove", () => { delete_entry(at); adder.focus(); });
    const element = made("div", { class: "agui-entry", role: "group", "aria-label": title(at) },
      ...(is_map ? [made("div", { class: "agui-field" }, made("label", { for: name.id }, "name", needed()), name)] : []), own.element, remove);
    entries.set(at, { own, name, element });
    place.append(element);
    limit();
    return element;
  };
  const delete_entry = (at) => {
    entries.get(at).element.remove();
    entries.delete(at);
    limit();
  };
  const adder = clicked(`Add to ${field.title}`, "Add", () => add(field.item).querySelector("input, select, textarea, button")?.focus());
  const limit = () => { adder.disabled = field.most !== null && entries.size >= field.most; };
  const outer = frame(field, id, place, adder);
  field.fields.forEach((spec, at) => add(spec, field.keys[at]));
  limit();
  return {
    element: outer.element,
    collect: (name, values) => {
      values[name] = [...entries.keys()].join(",");
      entries.forEach(({ own, name: key }, at) => {
        if (is_map) values[`?${name}/${at}`] = key.value;
        own.collect(`${name}/${at}`, values);
      });
    },
    restore: (name, values) => {
      if (values[name] === undefined) return;
      const ids = values[name].split(",").filter(Boolean).map(Number);
      for (const at of [...entries.keys()]) if (!ids.includes(at)) delete_entry(at);
      for (const at of ids) {
        if (!entries.has(at)) add(field.item, "", at);
        entries.get(at).name.value = values[`?${name}/${at}`] ?? "";
        entries.get(at).own.restore(`${name}/${at}`, values);
      }
    },
    describe: (name, problems) => {
      entries.forEach(({ own }, at) => own.describe(`${name}/${at}`, problems));
      outer.describe(name, problems);
    },
  };
}

// A value that has one of several forms, with a list to choose it from.
function variants(field, id, form) {
  const options = field.fields.map((each, at) => made("option", { value: String(at) }, each.title));
  const empty = field.is_needed ? [] : [made("option", { value: "" }, "—")];
  const chooser = made("select", { "aria-label": field.label }, ...empty, ...options);
  const place = made("div"), made_nodes = new Map();
  chooser.value = field.chosen === null ? "" : String(field.chosen);
  const chosen = () => chooser.value === "" ? null : made_nodes.get(chooser.value);
  const show = () => {
    const at = chooser.value;
    if (at !== "" && !made_nodes.has(at)) {
      const spec = field.fields[Number(at)];
      made_nodes.set(at, spec.control === "group" ? group(spec, `${id}-${at}`, form, true) : node(spec, `${id}-${at}`, form));
    }
    place.replaceChildren(...(at === "" ? [] : [chosen().element]));
  };
  chooser.addEventListener("change", show);
  show();
  const outer = frame(field, id, made("div", { class: "agui-field" }, chooser), place);
  return {
    element: outer.element,
    collect: (name, values) => {
      values[`?${name}`] = chooser.value;
      chosen()?.collect(name, values);
    },
    restore: (name, values) => {
      if (values[`?${name}`] === undefined) return;
      chooser.value = values[`?${name}`];
      show();
      chosen()?.restore(name, values);
    },
    describe: (name, problems) => {
      chosen()?.describe(name, problems);
      outer.describe(name, problems);
    },
  };
}

const NODES = { group, rows, map: rows, variants };
function node(field, id, form) {
  // A definition that refers to itself is drawn as deep as the user opens it.
  const whole = field.again ? { ...form.templates[field.again], name: field.name, label: field.label, is_needed: field.is_needed, is_open: field.is_open } : field;
  return (NODES[whole.control] ?? leaf)(whole, id, form);
}

// --- the mark in the title of the page, as long as a question is open

const open = new Set(), MARK = "❓ ";
const mark = () => {
  const title = document.title.startsWith(MARK) ? document.title.slice(MARK.length) : document.title;
  const wanted = open.size ? MARK + title : title;
  if (document.title !== wanted) document.title = wanted;
};
// The page writes its title anew, such as when the notebook was saved.
const titles = new MutationObserver(mark);
const note = (change) => {
  change();
  titles.disconnect();
  mark();
  if (open.size) titles.observe(document.head, { childList: true, characterData: true, subtree: true });
};

// --- what was typed, for a page that is loaded again; passwords are not kept

const kept = (id) => { try { return JSON.parse(sessionStorage.getItem(id) ?? "{}"); } catch { return {}; } };
const keep = (id, values) => {
  try { values === null ? sessionStorage.removeItem(id) : sessionStorage.setItem(id, JSON.stringify(values)); } catch { /* no storage */ }
};

// Notebooks look for their keys in everything but fields; this one they get all the same.
const save = (event, beside) => {
  event.preventDefault();
  const { key, code, ctrlKey, metaKey } = event;
  beside.dispatchEvent(new KeyboardEvent("keydown", { key, code, keyCode: 83, which: 83, ctrlKey, metaKey, bubbles: true, cancelable: true }));
};

// Whether the user writes elsewhere, from where the focus is not taken; a notebook puts it into an empty cell by itself.
const is_typing = () => {
  const at = document.activeElement;
  if (at === null || !(at.isContentEditable || at.matches("input, textarea, select"))) return false;
  return (at.value ?? at.textContent).trim() !== "";
};

function draw({ model, el }) {
  const { style, question, fields, choices, asked_id, templates, is_call, call, is_call_open } = model.get("shown");
  const id = `agui-question-${++number}`, form = { templates, is_call };
  const text = made("div", { class: "agui-question", id, dir: "auto" }, question);
  const problem = made("div", { class: "agui-problem agui-bad", role: "alert", dir: "auto" });
  const waiting = made("div", { class: "agui-line agui-dim", role: "status", dir: "auto" });
  const nodes = fields.map((field, place) => [field.name, node(field, `${id}-${place}`, form)]);
  const buttons = new Map(choices.map(({ name, tone }) =>
    [name, made("button", { type: "button", class: `agui-choice agui-choice-${tone}` }, name)]));
  const asked_for = call ? [made("details", { class: "agui-fold", ...(is_call_open ? { open: "" } : {}) }, made("summary", {}, "The call as the agent asked for it"), made("pre", {}, call))] : [];
  const body = made("fieldset", { class: "agui-body" }, ...nodes.map(([, each]) => each.element), ...asked_for,
    made("div", { class: "agui-choices" }, ...buttons.values()));
  const legend = made("div", { class: "agui-line agui-dim" }, made("span", { class: "agui-needed" }, "*"), " needed");
  const panel = made("div",
    { class: "agui agui-panel tex2jax_ignore mathjax_ignore", role: "group", tabindex: "-1", "aria-labelledby": id },
    text, ...(body.querySelector(".agui-needed") ? [legend] : []), body, problem, waiting);
  keep_keys(panel);
  const first = choices[0].name, last = choices.find(({ is_refusal }) => is_refusal)?.name ?? first;
  const collected = () => {
    const values = {};
    nodes.forEach(([name, each]) => each.collect(name, values));
    return values;
  };
  const before = JSON.stringify(collected());
  nodes.forEach(([name, each]) => each.restore(name, kept(asked_id)));

  // What is locked loses the focus, and gets it back.
  let focused = null;
  const lock = (is_locked) => {
    if (is_locked && panel.contains(document.activeElement)) focused = document.activeElement;
    body.disabled = is_locked;
    if (!is_locked && focused !== null && document.activeElement === document.body) focused.focus();
  };
  const say = (message, problems = {}) => {
    const left = { ...problems };
    delete left[""];
    if (fields.some(({ name }) => name === "") && problems[""]) left[""] = problems[""];
    nodes.forEach(([name, each]) => each.describe(name, left));
    problem.textContent = [message, ...Object.values(left)].filter(Boolean).join(" ");
  };
  const pressing = presses(model, lock, (sentence) => { waiting.textContent = sentence; });
  const press = (name) => {
    say("");
    pressing.press(name, { pressed: name, values: collected() });
  };
  buttons.forEach((button, name) => button.addEventListener("click", () => press(name)));
  panel.addEventListener("input", () => {
    const values = collected();
    panel.querySelectorAll("[type=password]").length ? keep(asked_id, null) : keep(asked_id, values);
  });
  panel.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.isComposing) return;
    const is_field = event.target.matches("input, select, textarea"), is_with_control = event.ctrlKey || event.metaKey;
    if (event.key.toLowerCase() === "s" && is_with_control && !event.shiftKey && !event.altKey) {
      save(event, panel.parentElement);
    } else if (event.key === "Enter" && is_field && (event.target.tagName !== "TEXTAREA" || is_with_control)) {
      event.preventDefault();
      press(event.target.closest("[data-enters]")?.dataset.enters ?? first);
    } else if (event.key === "Escape" && event.target !== panel) {
      event.preventDefault();
      // Esc throws nothing away that was typed: then it first goes to the button.
      if (JSON.stringify(collected()) !== before && event.target !== buttons.get(last)) buttons.get(last).focus();
      else press(last);
    }
  });
  const refuse = ({ problem: message, problems }) => {
    if (message === undefined) return;
    pressing.end();
    say(message, problems);
  };
  const receive = (message) => {
    if (pressing.receive(message)) return;
    if (message.ended !== undefined) return end(message.ended);
    refuse(message);
    const wrong = panel.querySelector("[aria-invalid=true]");
    (wrong?.matches("input, select, textarea") ? wrong : wrong?.querySelector("input, select, textarea, button"))?.focus();
  };
  // The text beside the form is for pages on which it is not drawn, or does not work any more.
  const asked = () => document.getElementById(asked_id);
  let came_from = null;
  const end = (line) => {
    pressing.end();
    keep(asked_id, null);
    note(() => open.delete(id));
    if (panel.contains(document.activeElement) || document.activeElement === document.body) came_from?.focus?.();
    // On a page that was opened again, no static content takes the place of the form.
    panel.replaceChildren(made("div", { class: "agui-line agui-dim" }, line));
    if (asked()) {
      panel.hidden = true;
      asked().textContent = line;
      asked().style.animation = "none";
      asked().hidden = false;
    }
  };
  model.on("msg:custom", receive);
  if (model.get("shown").problem !== undefined) refuse(model.get("shown"));
  el.append(made("style", {}, style), panel);
  note(() => open.add(id));
  requestAnimationFrame(() => {
    if (asked()) asked().hidden = true;
    panel.scrollIntoView({ block: "nearest" });
    if (is_typing()) waiting.textContent = "A question is open.";
    else {
      came_from = document.activeElement;
      panel.focus({ preventScroll: true });
    }
  });
  model.send({ shown: true });
  return () => {
    model.off("msg:custom", receive);
    pressing.end();
    note(() => open.delete(id));
  };
}

const key = (model) => model.get("shown").asked_id;
const initialize = ({ model }) => adopt(key(model), (el) => draw({ model, el }));
function render({ model, el }) {
  drawn_in_output(key(model));
  return draw({ model, el });
}

export default { initialize, render };
