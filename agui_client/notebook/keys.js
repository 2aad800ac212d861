// Keys that belong to a widget; stands before the scripts that have fields or buttons.
// A notebook looks for its keys at the element with the focus and at those above it, up to one with this attribute.
// So the element itself has it, too: Enter on a button would go into the cell, an arrow key to another one.

const OWN_KEYS = "data-lm-suppress-shortcuts";
const keep_keys = (root) => {
  root.setAttribute(OWN_KEYS, "true");
  root.addEventListener("focusin", ({ target }) => target.setAttribute(OWN_KEYS, "true"));
};
