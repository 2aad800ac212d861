"use strict";
/* Elements of the page. Everything that an agent wrote becomes a text node: it is never read as HTML. */

// Characters that a screen would obey, hide or reverse; what follows is part of how languages are written.
const HIDDEN = /(?![\n\t\u00ad\u200c\u200d])[\p{C}\p{Zl}\p{Zp}]/gu;

/** Write hidden and reversing characters as JSON would. */
function visible(text) {
  return text.replace(HIDDEN, (each) => {
    let written = "";
    for (let at = 0; at < each.length; at++) {
      written += "\\u" + each.charCodeAt(at).toString(16).padStart(4, "0");
    }
    return written;
  });
}

/** Make an element: h("button.small", { onclick }, "text", another). */
function h(name, attributes = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const element = document.createElement(tag);
  element.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) {
      element.addEventListener(key.slice(2), value);
    } else if (value === true) {
      element.setAttribute(key, "");
    } else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(key, visible(String(value)));
    }
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) {
      element.append(child instanceof Node ? child : visible(String(child)));
    }
  }
}

/** Make the children of an element these, and leave those alone that are there already. */
function setChildren(element, children) {
  children.forEach((child, at) => {
    const present = element.children[at];
    if (present !== child) {
      element.insertBefore(child, present ?? null);
    }
  });
  while (element.children.length > children.length) {
    element.lastElementChild.remove();
  }
}

function byId(id) {
  return document.getElementById(id);
}

/** Write seconds: 12.3 ms, 1.23 s, 2 min 3 s, 1 h 2 min. */
function duration(seconds) {
  if (seconds < 1) {
    return `${Number((seconds * 1000).toPrecision(3))} ms`;
  }
  if (seconds < 60) {
    return `${seconds.toPrecision(3)} s`;
  }
  const whole = Math.round(seconds);
  return whole < 3600
    ? `${Math.floor(whole / 60)} min ${whole % 60} s`
    : `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

function counted(number, noun) {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

function shortened(text, most) {
  return text.length > most ? text.slice(0, most) + "…" : text;
}

/** Write a JSON value in one line. */
function oneLine(value, most = 200) {
  return value === undefined ? "" : shortened(typeof value === "string" ? value : JSON.stringify(value), most);
}

/** Indent a text if it is JSON, and leave it otherwise. */
function prettyIfJson(text) {
  try {
    const value = JSON.parse(text);
    return typeof value === "object" && value !== null ? JSON.stringify(value, null, 2) : text;
  } catch {
    return text;
  }
}
