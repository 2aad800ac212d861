// Draws a question below a cell, and sends what stands in its fields with the button that is pressed.
// Text only: nothing that is shown here is read as HTML, and no TeX is drawn.

const made = (tag, attributes = {}, ...inside) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...inside);
  return element;
};

let number = 0;

// A moment as a field for dates and times has it, by the clock of the person, and back with its zone.
const local = (text) => {
  const moment = new Date(text);
  return isNaN(moment) ? "" : new Date(moment - moment.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
};
const zoned = (text) => {
  const minutes = -new Date(text).getTimezoneOffset(), two = (count) => String(Math.abs(Math.trunc(count))).padStart(2, "0");
  return `${text.length < 19 ? `${text}:00` : text}${minutes < 0 ? "-" : "+"}${two(minutes / 60)}:${two(minutes % 60)}`;
};

// --- controls: each has the elements that take the focus, and a function that reads what stands in them

function line(field, attributes) {
  const is_moment = field.type === "datetime-local";
  const input = made("input", { ...attributes, ...field.bounds, type: field.type, autocomplete: "off" });
  input.value = is_moment ? local(field.value) : field.value;
  // What a browser cannot read as a number or a date has no value of its own; it must not count as left out.
  const read = () => input.validity.badInput ? "?" : is_moment && input.value ? zoned(input.value) : input.value;
  return { element: input, read };
}

function area(field, attributes) {
  const input = made("textarea", { ...attributes, rows: field.rows, spellcheck: "false" });
  input.value = field.value;
  const lines = () => input.value.split("\n").map((each) => each.trim()).filter(Boolean);
  return { element: input, read: field.control === "lines" ? () => JSON.stringify(lines()) : () => input.value };
}

function select(field, attributes) {
  const options = ["", ...field.choices].map((choice, place) =>
    made("option", { value: choice }, place ? field.shown_choices[place - 1] : "—"));
  const input = made("select", attributes, ...options);
  input.value = field.value;
  return { element: input, read: () => input.value };
}

function boxes(field, attributes) {
  const is_radio = field.control === "radio";
  const checked = is_radio ? [field.value] : JSON.parse(field.value);
  const inputs = field.choices.map((choice) => {
    const input = made("input", { type: is_radio ? "radio" : "checkbox", name: attributes.id });
    input.checked = checked.includes(choice);
    return input;
  });
  const rows = inputs.map((input, place) => made("label", { class: "agui-box", dir: "auto" }, input, field.shown_choices[place]));
  const { id, ...rest } = attributes;
  const element = made("div", { ...rest, role: is_radio ? "radiogroup" : "group", class: "agui-boxes" }, ...rows);
  const chosen = () => field.choices.filter((_, place) => inputs[place].checked);
  return { element, first: inputs[0], read: () => is_radio ? chosen()[0] ?? "" : JSON.stringify(chosen()) };
}

const CONTROLS = { line, area, lines: area, select, radio: boxes, boxes };

// Draws a field, or a group of them; adds each to `drawn`, by its name.
function row(field, id, drawn) {
  const about = field.description ? [made("div", { class: "agui-line agui-dim", id: `${id}-about`, dir: "auto" }, field.description)] : [];
  const mark = field.is_needed && field.control !== "group" ? [made("span", { class: "agui-needed", "aria-hidden": "true" }, " *")] : [];
  if (field.control === "group") {
    const rows = field.fields.map((each, place) => row(each, `${id}-${place}`, drawn));
    return made("fieldset", { class: "agui-group" }, made("legend", { dir: "auto" }, field.label), ...about, ...rows);
  }
  const has_boxes = field.control === "radio" || field.control === "boxes";
  const attributes = { id, dir: "auto", ...(has_boxes ? { "aria-labelledby": `${id}-label` } : {}) };
  if (field.is_needed && field.control !== "boxes") attributes["aria-required"] = "true";
  const control = CONTROLS[field.control](field, attributes);
  const problem = made("div", { class: "agui-problem agui-bad", id: `${id}-problem`, dir: "auto" });
  const described = (text) => {
    problem.textContent = text ?? "";
    const ids = [...(about.length ? [`${id}-about`] : []), ...(text ? [`${id}-problem`] : [])].join(" ");
    ids ? control.element.setAttribute("aria-describedby", ids) : control.element.removeAttribute("aria-describedby");
    text ? control.element.setAttribute("aria-invalid", "true") : control.element.removeAttribute("aria-invalid");
  };
  described("");
  drawn.set(field.name, { ...control, field, described, first: control.first ?? control.element, before: control.read() });
  const label = made("label", { ...(has_boxes ? {} : { for: id }), id: `${id}-label`, dir: "auto" }, field.label, ...mark);
  return made("div", { class: "agui-field" }, label, ...about, control.element, problem);
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

function render({ model, el }) {
  const { style, question, fields, choices, asked_id } = model.get("shown");
  const id = `agui-question-${++number}`, drawn = new Map();
  const text = made("div", { class: "agui-question", id, dir: "auto" }, question);
  const problem = made("div", { class: "agui-problem agui-bad", role: "alert", dir: "auto" });
  const waiting = made("div", { class: "agui-line agui-dim", role: "status", dir: "auto" });
  const rows = fields.map((field, place) => row(field, `${id}-${place}`, drawn));
  const is_marked = [...drawn.values()].some(({ field }) => field.is_needed);
  const legend = is_marked ? [made("div", { class: "agui-line agui-dim" }, made("span", { class: "agui-needed" }, "*"), " needed")] : [];
  const buttons = new Map(choices.map(({ name, tone }) =>
    [name, made("button", { type: "button", class: `agui-choice agui-choice-${tone}` }, name)]));
  const panel = made("div",
    { class: "agui agui-panel tex2jax_ignore mathjax_ignore", role: "group", "aria-labelledby": id, "data-lm-suppress-shortcuts": "true" },
    text, ...legend, ...rows, made("div", { class: "agui-choices" }, ...buttons.values()), problem, waiting);
  const first = choices[0].name, last = choices.find(({ is_refusal }) => is_refusal)?.name ?? first;

  // What is locked loses the focus, and gets it back.
  let focused = null;
  const lock = (is_locked) => {
    if (is_locked && panel.contains(document.activeElement)) focused = document.activeElement;
    for (const each of panel.querySelectorAll("input, textarea, select, button")) each.disabled = is_locked;
    if (!is_locked && focused !== null && document.activeElement === document.body) focused.focus();
  };
  const say = (message, problems = {}) => {
    problem.textContent = message;
    drawn.forEach(({ described }, name) => described(problems[name]));
  };
  const pressing = presses(model, lock, (sentence) => { waiting.textContent = sentence; });
  const press = (name) => {
    say("");
    pressing.press(name, { pressed: name, values: Object.fromEntries([...drawn].map(([field, { read }]) => [field, read()])) });
  };
  buttons.forEach((button, name) => button.addEventListener("click", () => press(name)));
  panel.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.isComposing) return;
    const at = [...drawn.values()].find(({ element }) => element.contains(event.target));
    if (event.key === "Enter" && at && (event.target.tagName !== "TEXTAREA" || event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      press(at.field.enters ?? first);
    } else if (event.key === "Escape") {
      event.preventDefault();
      // Esc throws nothing away that was typed: then it first goes to the button.
      const is_typed = [...drawn.values()].some(({ read, before }) => read() !== before);
      if (is_typed && event.target !== buttons.get(last)) buttons.get(last).focus();
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
    [...drawn].find(([name]) => message.problems?.[name])?.[1].first.focus();
  };
  // The text beside the form is for pages on which it is not drawn, or does not work any more.
  const asked = () => document.getElementById(asked_id);
  const end = (line) => {
    pressing.end();
    note(() => open.delete(id));
    if (asked()) {
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
  });
  model.send({ shown: true });
  return () => {
    model.off("msg:custom", receive);
    pressing.end();
    note(() => open.delete(id));
  };
}

export default { render };
