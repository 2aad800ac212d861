/* Search: in each row's JSON, and in texts and arguments that were streamed in pieces. */

class Search {
  constructor(recording) {
    this.recording = recording;
    this.written = [];
    this.streams = new Map();
  }

  /** Take in the rows that were added since. */
  catchUp() {
    for (const row of this.recording.rows.slice(this.written.length)) {
      this.written.push(`${row.name} ${row.k} ${JSON.stringify(row.d)} ${row.e ?? ""} ${JSON.stringify(row.w ?? "")}`.toLowerCase());
      const id = row.d?.messageId ?? row.d?.toolCallId;
      if (typeof id === "string" && typeof row.d.delta === "string") this.addPiece(`${row.r} ${row.family} ${id}`, row);
    }
  }

  addPiece(key, row) {
    let stream = this.streams.get(key);
    if (!stream) {
      stream = { pieces: [], rows: [], ends: [], length: 0 };
      this.streams.set(key, stream);
    }
    const text = row.d.delta.toLowerCase();
    stream.length += text.length;
    stream.pieces.push(text);
    stream.rows.push(row.i);
    stream.ends.push(stream.length);
  }

  /** Return the rows in which a text is, or becomes complete, in order. */
  find(text) {
    const wanted = text.toLowerCase();
    if (!wanted) return [];
    this.catchUp();
    const found = new Set();
    this.written.forEach((written, at) => {
      if (written.includes(wanted)) found.add(at);
    });
    for (const stream of this.streams.values()) {
      const whole = stream.pieces.join("");
      for (let at = whole.indexOf(wanted); at >= 0; at = whole.indexOf(wanted, at + wanted.length)) {
        found.add(stream.rows[firstAtLeast(stream.ends, at + wanted.length)]);
      }
    }
    return [...found].sort((one, other) => one - other);
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
