/* The timeline: a line for each agent and subagent, events as ticks, and long pauses drawn short. */

const LANE_HEIGHT = 22;
const PAUSE_WIDTH = 30;
const LONG_PAUSE = 10;

class Timeline {
  constructor(recording, place, labels, choose, toggle) {
    Object.assign(this, { recording, place, labels, choose, toggle });
    this.canvas = h("canvas");
    this.cursor = h("div.cursor");
    this.mark = h("div.cursor.marked");
    place.append(this.canvas, this.mark, this.cursor);
    const pick = (event) => event.buttons === 1 && this.pick(event);
    place.addEventListener("pointerdown", pick);
    place.addEventListener("pointermove", pick);
  }

  /** Choose the row nearest to the pointer, in its lane if it has one there. */
  pick(event) {
    const box = this.place.getBoundingClientRect();
    const x = event.clientX - box.left;
    const lane = this.shown[Math.floor((event.clientY - box.top) / LANE_HEIGHT)];
    const nearest = (rows) => {
      const at = firstAtLeast(rows.map((each) => this.xs[each]), x);
      const left = rows[at - 1];
      const right = rows[at];
      return right === undefined || (left !== undefined && x - this.xs[left] < this.xs[right] - x) ? left : right;
    };
    const inLane = nearest(this.rowsOf(lane));
    const all = nearest(this.recording.rows.map((row) => row.i));
    const row = inLane !== undefined && Math.abs(this.xs[inLane] - x) < 8 ? inLane : all;
    if (row !== undefined) this.choose(row);
  }

  rowsOf(lane) {
    return this.recording.rows.filter((row) => lane && this.homeOf(row) === lane).map((row) => row.i);
  }

  /** Return the lane in which a row is drawn: of a folded agent, its own. */
  homeOf(row) {
    let home = this.recording.lanes[row.l];
    for (let lane = home; lane; lane = this.recording.lanes[lane.parent]) {
      if (lane.isFolded && lane !== this.recording.lanes[row.l]) home = lane;
    }
    return home;
  }

  /** Give each row its place: time, with long pauses cut short. */
  layOut(width) {
    const { rows } = this.recording;
    const steps = rows.map((row, at) => (at ? row.t - rows[at - 1].t : 0));
    const active = steps.reduce((sum, step) => sum + (step > LONG_PAUSE ? 0 : step), 0);
    const longest = Math.max(1, active / 8);
    this.pauses = [];
    steps.forEach((step, at) => step > longest && this.pauses.push({ row: at, seconds: step }));
    const band = Math.min(PAUSE_WIDTH, (width * 0.4) / Math.max(1, this.pauses.length));
    const short = steps.reduce((sum, step) => sum + (step > longest ? 0 : step), 0) || 1;
    const scale = (width - 12 - band * this.pauses.length) / short;
    let x = 6;
    this.xs = steps.map((step) => (x += step > longest ? band : step * scale));
    this.band = band;
  }

  draw() {
    const width = this.place.clientWidth;
    if (!width) return;
    this.shown = this.orderedLanes();
    this.layOut(width);
    const height = Math.max(1, this.shown.length) * LANE_HEIGHT;
    const ratio = window.devicePixelRatio || 1;
    Object.assign(this.canvas, { width: width * ratio, height: height * ratio });
    Object.assign(this.canvas.style, { width: `${width}px`, height: `${height}px` });
    this.place.style.height = `${height}px`;
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const colours = getComputedStyle(document.documentElement);
    const colour = (name) => colours.getPropertyValue(`--${name}`).trim();
    this.drawSpans(pen, colour("span"));
    this.drawPauses(pen, colour("line"), colour("quiet"), height);
    this.drawTicks(pen, colour);
    this.drawLabels();
  }

  /** Return the lanes that are not folded away, each below the one that it belongs to. */
  orderedLanes() {
    const below = new Map();
    for (const lane of this.recording.lanes) {
      below.set(lane.parent, [...(below.get(lane.parent) ?? []), lane]);
    }
    const found = [];
    const visit = (lane, depth) => {
      lane.depth = depth;
      lane.hasChildren = below.has(lane.id);
      found.push(lane);
      if (!lane.isFolded) (below.get(lane.id) ?? []).forEach((each) => visit(each, depth + 1));
    };
    (below.get(null) ?? []).forEach((lane) => visit(lane, 0));
    return found;
  }

  drawSpans(pen, colour) {
    pen.fillStyle = colour;
    const { rows } = this.recording;
    const times = rows.map((row) => row.t);
    const xOf = (time) => this.xs[Math.min(firstAtLeast(times, time), rows.length - 1)];
    this.shown.forEach((lane, at) => {
      for (const span of lane.spans) {
        const left = xOf(span.start);
        pen.fillRect(left, at * LANE_HEIGHT + 4, Math.max(2, xOf(span.end) - left), LANE_HEIGHT - 8);
      }
    });
  }

  drawPauses(pen, line, quiet, height) {
    pen.font = "10px sans-serif";
    pen.textAlign = "center";
    for (const { row, seconds } of this.pauses) {
      const right = this.xs[row];
      pen.fillStyle = line;
      for (let x = right - this.band + 3; x < right - 2; x += 5) pen.fillRect(x, 2, 1, height - 4);
      if (this.band >= PAUSE_WIDTH) {
        pen.fillStyle = quiet;
        pen.fillText(duration(seconds).replace(/ (?=s$|ms$)/, ""), right - this.band / 2, LANE_HEIGHT / 2 + 4, this.band);
      }
    }
  }

  drawTicks(pen, colour) {
    const places = new Map(this.shown.map((lane, at) => [lane, at * LANE_HEIGHT]));
    const taken = new Set();
    for (const row of this.recording.rows) {
      const top = places.get(this.homeOf(row));
      const family = row.isBad ? "bad" : row.w ? "warning" : row.family;
      const spot = `${Math.round(this.xs[row.i])} ${top} ${family}`;
      if (top === undefined || taken.has(spot)) continue;
      taken.add(spot);
      pen.fillStyle = colour(family);
      const isHigh = ["bad", "warning", "waiting"].includes(family);
      pen.fillRect(Math.round(this.xs[row.i]), top + (isHigh ? 1 : 5), isHigh ? 3 : 2, LANE_HEIGHT - (isHigh ? 2 : 10));
    }
  }

  drawLabels() {
    const button = (lane) =>
      h("button.fold", { onclick: () => this.toggle(lane), "aria-expanded": String(!lane.isFolded) }, lane.isFolded ? "▸" : "▾");
    const labels = this.shown.map((lane) => {
      const label = h(`div.lane.${lane.kind}`, { title: lane.name }, lane.hasChildren ? button(lane) : h("span.fold"), lane.name);
      label.style.paddingLeft = `${4 + lane.depth * 12}px`;
      return label;
    });
    this.labels.replaceChildren(...labels);
  }

  moveCursor(row, marked) {
    const place = (element, at) => {
      element.hidden = at === undefined || at === null;
      if (!element.hidden) element.style.transform = `translateX(${this.xs?.[at] ?? 0}px)`;
    };
    place(this.cursor, row);
    place(this.mark, marked);
  }
}
