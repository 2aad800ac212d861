/* Markdown of agents as elements: what is not Markdown here stays text, pictures are links, and nothing is read as HTML. */

const LINK = /^(?:https?:\/\/|mailto:)/i;
const INLINE = [
  [/^(`+)([^`]|[^`][\s\S]*?[^`])\1(?!`)/, (found) => h("code", {}, found[2])],
  [/^\*\*(?=\S)([\s\S]*?\S)\*\*/, (found) => h("strong", {}, ...inline(found[1]))],
  [/^__(?=\S)([\s\S]*?\S)__(?!\w)/, (found) => h("strong", {}, ...inline(found[1]))],
  [/^~~(?=\S)([\s\S]*?\S)~~/, (found) => h("s", {}, ...inline(found[1]))],
  [/^\*(?=\S)([^*]*?[^*\s])\*(?!\*)/, (found) => h("em", {}, ...inline(found[1]))],
  [/^_(?=\S)([^_]*?[^_\s])_(?!\w)/, (found) => h("em", {}, ...inline(found[1]))],
  [/^!?\[([^\]\n]*)\]\(\s*(\S+?)(?:\s+"[^"\n]*")?\s*\)/, (found) => link(found[2], inline(found[1]), found[0])],
  [/^<((?:https?:\/\/|mailto:)[^\s<>]+)>/i, (found) => link(found[1], [found[1]], found[0])],
  [/^https?:\/\/[^\s<>"')\]]*[^\s<>"')\].,;:!?]/i, (found) => link(found[0], [found[0]], found[0])],
  [/^\\([!-/:-@[-`{-~])/, (found) => found[1]],
];
const MARKS = /[`*_~![<\\h]/g;
const LONGEST = 50_000;
const DEEPEST = 8;

/** A link that a person sees the address of; an address of another kind stays text. */
function link(address, inside, written) {
  return LINK.test(address)
    ? h("a", { href: address, target: "_blank", rel: "noopener noreferrer nofollow" }, ...inside)
    : written;
}

function inline(text) {
  const parts = [];
  let plain = 0;
  for (let at = 0; at < text.length;) {
    MARKS.lastIndex = at;
    const mark = MARKS.exec(text);
    if (!mark) break;
    at = mark.index;
    const isInWord = at > 0 && /\w/.test(text[at - 1]) && /[_h]/.test(text[at]);
    // No mark of a line reaches further: an unclosed one would have the rest of a long text searched again and again.
    const rest = text.slice(at, at + 2000);
    const [found, make] = isInWord ? [] : firstFound(rest);
    if (found) {
      parts.push(text.slice(plain, at), make(found));
      at += found[0].length;
      plain = at;
    } else at += 1;
  }
  parts.push(text.slice(plain));
  return parts.filter((part) => part !== "");
}

function firstFound(rest) {
  for (const [pattern, make] of INLINE) {
    const found = pattern.exec(rest);
    if (found) return [found, make];
  }
  return [];
}

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#-]*)[^`]*$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const BLOCKS = /^(?: {0,3}(?:#{1,6}\s|>|`{3,}|~{3,}|(?:[-*_]\s*){3,}$)|\s*(?:[-*+]|\d{1,9}[.)])\s)/;

/** Draw a text; one that is very long stays as it is. */
function markdown(text) {
  if (text.length > LONGEST) return [h("p", {}, text)];
  return blocks(text.replace(/\r\n?/g, "\n").split("\n"), 0);
}

function blocks(lines, depth) {
  const drawn = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    const fence = FENCE.exec(line);
    const heading = /^ {0,3}(#{1,6})\s+(.*?)\s*#*$/.exec(line);
    if (!line.trim()) {
      at += 1;
    } else if (fence) {
      const ends = new RegExp(`^ {0,3}${fence[1][0]}{${fence[1].length},}\\s*$`);
      const end = lines.findIndex((each, place) => place > at && ends.test(each));
      const code = lines.slice(at + 1, end < 0 ? lines.length : end).join("\n");
      drawn.push(h("pre", {}, h("code", {}, code)));
      at = end < 0 ? lines.length : end + 1;
    } else if (heading) {
      drawn.push(h(`h${heading[1].length}`, {}, ...inline(heading[2])));
      at += 1;
    } else if (/^ {0,3}(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,})$/.test(line)) {
      drawn.push(h("hr"));
      at += 1;
    } else if (/^ {0,3}>/.test(line) && depth < DEEPEST) {
      const end = endOf(lines, at, (each) => /^ {0,3}>/.test(each));
      drawn.push(h("blockquote", {}, ...blocks(lines.slice(at, end).map((each) => each.replace(/^ {0,3}> ?/, "")), depth + 1)));
      at = end;
    } else if (ITEM.test(line) && depth < DEEPEST) {
      const end = endOf(lines, at, (each, place) =>
        ITEM.test(each) || (each.trim() ? /^\s/.test(each) || !BLOCKS.test(each) && lines[place - 1]?.trim() : ITEM.test(lines[place + 1] ?? "") || /^\s+\S/.test(lines[place + 1] ?? "")));
      drawn.push(list(lines.slice(at, end), depth + 1));
      at = end;
    } else if (line.includes("|") && /^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/.test(lines[at + 1] ?? "")) {
      const end = endOf(lines, at, (each) => each.includes("|") && each.trim() !== "");
      drawn.push(table(lines.slice(at, end)));
      at = end;
    } else {
      const end = endOf(lines, at, (each, place) => each.trim() !== "" && (place === at || !BLOCKS.test(each)));
      drawn.push(h("p", {}, ...inline(lines.slice(at, end).map((each) => each.trim()).join("\n"))));
      at = end;
    }
  }
  return drawn;
}

function endOf(lines, start, belongs) {
  let end = start + 1;
  while (end < lines.length && belongs(lines[end], end)) end += 1;
  return end;
}

function list(lines, depth) {
  const [, indent, mark] = ITEM.exec(lines[0]);
  const items = [];
  for (const line of lines) {
    const found = ITEM.exec(line);
    if (found && found[1].length <= indent.length + 1) items.push([found[3]]);
    else items.at(-1).push(line.slice(Math.min(indent.length + mark.length + 1, /^\s*/.exec(line)[0].length)));
  }
  const isOrdered = /\d/.test(mark);
  const drawn = items.map((each) => {
    const box = /^\[([ xX])\]\s+/.exec(each[0]);
    if (box) each[0] = `${box[1] === " " ? "☐" : "☑"} ${each[0].slice(box[0].length)}`;
    const inside = blocks(each, depth);
    // An item of one paragraph is as tight as it was written.
    if (inside[0]?.tagName === "P") inside.splice(0, 1, ...inside[0].childNodes);
    return h(box ? "li.agui-task" : "li", {}, ...inside);
  });
  return isOrdered ? h("ol", { start: Number.parseInt(mark, 10) }, ...drawn) : h("ul", {}, ...drawn);
}

function table(lines) {
  const cells = (line) => line.trim().replace(/^\||(?<!\\)\|$/g, "").split(/(?<!\\)\|/).map((each) => each.trim().replaceAll("\\|", "|"));
  const right = cells(lines[1]).map((each) => /^-+:$/.test(each));
  const row = (line, kind) =>
    h("tr", {}, ...cells(line).map((each, place) => h(right[place] ? `${kind}.agui-right` : kind, {}, ...inline(each))));
  return h("table", {}, h("thead", {}, row(lines[0], "th")), h("tbody", {}, ...lines.slice(2).map((each) => row(each, "td"))));
}
