// Draws a question below a cell, and sends what stands in its fields with the button that is pressed.
// Text only: nothing that is shown here is read as HTML, and no TeX is drawn.

const made = (tag, attributes = {}, ...inside) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...inside);
  return element;
};

let number = 0;

function input(field, id) {
  const attributes = { id, dir: "auto" };
  if (field.description) attributes["aria-describedby"] = `${id}-about`;
  if (field.is_required) attributes["aria-required"] = "true";
  if (field.choices) {
    const options = ["", ...field.choices].map((choice, place) =>
      made("option", { value: choice }, place ? field.shown_choices[place - 1] : "—"));
    const select = made("select", attributes, ...options);
    select.value = field.value;
    return select;
  }
  if (field.rows) {
    const area = made("textarea", { ...attributes, rows: field.rows, spellcheck: "false" });
    area.value = field.value;
    return area;
  }
  const line = made("input", { ...attributes, type: field.is_secret ? "password" : "text", autocomplete: "off" });
  line.value = field.value;
  return line;
}

function render({ model, el }) {
  const { style, question, fields, choices } = model.get("shown");
  const id = `agui-question-${++number}`;
  const text = made("div", { class: "agui-question", id, dir: "auto" }, question);
  const problem = made("div", { class: "agui-problem agui-bad", role: "alert", dir: "auto" });
  const inputs = new Map();
  const rows = fields.map((field, place) => {
    const own = `${id}-${place}`, control = input(field, own);
    inputs.set(field.name, control);
    const about = field.description
      ? [made("div", { class: "agui-line agui-dim", id: `${own}-about`, dir: "auto" }, field.description)] : [];
    return made("div", { class: "agui-field" }, made("label", { for: own, dir: "auto" }, field.label), ...about, control);
  });
  const buttons = new Map(choices.map(({ name, tone }) =>
    [name, made("button", { type: "button", class: `agui-choice agui-choice-${tone}` }, name)]));
  const panel = made("div",
    { class: "agui agui-panel tex2jax_ignore mathjax_ignore", role: "group", "aria-labelledby": id, "data-lm-suppress-shortcuts": "true" },
    text, ...rows, made("div", { class: "agui-choices" }, ...buttons.values()), problem);
  const first = choices[0].name, last = choices.find(({ is_refusal }) => is_refusal)?.name ?? first;

  const press = (name) => {
    problem.textContent = "";
    for (const each of [...inputs.values(), ...buttons.values()]) each.disabled = true;
    const values = Object.fromEntries([...inputs].map(([field, control]) => [field, control.value]));
    model.send({ pressed: name, values });
  };
  buttons.forEach((button, name) => button.addEventListener("click", () => press(name)));
  panel.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.isComposing) return;
    const field = fields.find(({ name }) => inputs.get(name) === event.target);
    if (event.key === "Enter" && field && (!field.rows || event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      press(field.enters ?? first);
    } else if (event.key === "Escape") {
      event.preventDefault();
      // Esc throws nothing away that was typed: then it first goes to the button.
      const is_typed = fields.some(({ name, value }) => inputs.get(name).value !== value);
      if (is_typed && event.target !== buttons.get(last)) buttons.get(last).focus();
      else press(last);
    }
  });
  const refuse = (message) => {
    if (message.problem === undefined) return;
    problem.textContent = message.problem;
    for (const each of [...inputs.values(), ...buttons.values()]) each.disabled = false;
  };
  model.on("msg:custom", refuse);
  if (model.get("shown").problem) refuse(model.get("shown"));
  el.append(made("style", {}, style), panel);
  model.send({ shown: true });
  return () => model.off("msg:custom", refuse);
}

export default { render };
