/* Search: in the texts of each row as one reads them, and in texts and arguments that were streamed in pieces. */

/** Stands between two texts, so that nothing is found across them. */
const BETWEEN = "\u0000";

class Search {
  constructor(recording) {
    this.recording = recording;
    this.written = [];
    this.streams = new Map();
  }

  /** Take in the rows that were added since. */
  catchUp() {
    for (const row of this.recording.rows.slice(this.written.length)) {
      const texts = [row.name, row.k, row.e ?? "", JSON.stringify(row.d), ...textsOf([row.d, row.w ?? [], row.s ?? []])];
      this.written.push(plain(texts.join(BETWEEN)));
      const id = row.d?.messageId ?? row.d?.toolCallId;
      if (typeof id === "string" && typeof row.d.delta === "string") this.addPiece(`${row.r} ${row.family} ${id}`, row);
    }
  }

  addPiece(key, row) {
    let stream = this.streams.get(key);
    if (!stream) {
      stream = { pieces: [], written: [], rows: [], ends: [], length: 0, decoded: null };
      this.streams.set(key, stream);
    }
    // White space that continues in the next piece counts once, as within a piece.
    const isAfterSpace = stream.written.findLast((piece) => piece)?.endsWith(" ");
    const text = isAfterSpace ? plain(row.d.delta).trimStart() : plain(row.d.delta);
    stream.length += text.length;
    stream.pieces.push(row.d.delta);
    stream.written.push(text);
    stream.rows.push(row.i);
    stream.ends.push(stream.length);
    stream.decoded = null;
  }

  /** Return the rows in which a text is, or becomes complete, in order. */
  find(text) {
    const wanted = plain(text);
    if (!wanted) return [];
    this.catchUp();
    const found = new Set();
    this.written.forEach((written, at) => {
      if (written.includes(wanted)) found.add(at);
    });
    for (const stream of this.streams.values()) {
      const whole = stream.written.join("");
      let at = whole.indexOf(wanted);
      // In JSON, as arguments are, a text may be written with escapes; it is complete with the last piece.
      if (at < 0 && this.decoded(stream).includes(wanted)) found.add(stream.rows.at(-1));
      for (; at >= 0; at = whole.indexOf(wanted, at + wanted.length)) {
        found.add(stream.rows[firstAtLeast(stream.ends, at + wanted.length)]);
      }
    }
    return [...found].sort((one, other) => one - other);
  }

  decoded(stream) {
    stream.decoded ??= plain(textsOf(parsed(stream.pieces.join(""))).join(BETWEEN));
    return stream.decoded;
  }
}

/** Return a text for comparisons: in small letters, and with one space for any white space. */
function plain(text) {
  return text.toLowerCase().replace(/\s+/g, " ");
}

/** Return the names and texts in a JSON value, also those in JSON that stands in a text, as results of tools do. */
function textsOf(value) {
  const found = [];
  const rest = [value];
  while (rest.length) {
    const each = rest.pop();
    if (typeof each === "object" && each !== null) {
      for (const [name, member] of Object.entries(each)) {
        if (!Array.isArray(each)) found.push(name);
        rest.push(member);
      }
    } else if (typeof each === "string") {
      found.push(each);
      rest.push(parsed(each));
    }
  }
  return found;
}

/** Return the JSON in a text; undefined if it is none, or no object, array or text. */
function parsed(text) {
  if (!/^\s*["[{]/.test(text)) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Return the position of the first number of a sorted list that is not smaller than a value. */
function firstAtLeast(numbers, value) {
  let low = 0;
  let high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
