// A small force layout: the same input gives the same result, and nothing moves afterwards.

const ROUNDS = 320;
const GAP = 18;

/** Place `nodes` ({id, size, fixed}) joined by `edges` ({source, target}) into width x height. */
export function layout(nodes, edges, width, height) {
  const at = new Map();
  nodes.forEach((node, index) => {
    // Spread along a spiral, so that no two start in one place.
    const angle = index * 2.399963;
    const far = 0.45 * Math.sqrt((index + 0.5) / nodes.length);
    at.set(node.id, { node, x: width * (0.5 + far * Math.cos(angle)), y: height * (0.5 + far * Math.sin(angle)), dx: 0, dy: 0 });
  });
  const points = [...at.values()];
  const links = edges.map((edge) => [at.get(edge.source), at.get(edge.target)]).filter(([a, b]) => a && b);
  const ideal = 0.82 * Math.sqrt((width * height) / Math.max(1, nodes.length));
  const stretch = width / height;
  let temperature = width / 8;
  for (let round = 0; round < ROUNDS; round++) {
    for (const point of points) {
      point.dx = (width / 2 - point.x) * 0.16;
      point.dy = (height / 2 - point.y) * 0.16 * stretch;
    }
    for (let i = 0; i < points.length; i++) {
      for (let j = i + 1; j < points.length; j++) {
        const a = points[i];
        const b = points[j];
        const x = a.x - b.x || 0.01 * (i - j);
        const y = a.y - b.y || 0.01;
        const near = Math.max(1, x * x + y * y);
        const push = Math.min(12, (ideal * ideal) / near);
        a.dx += x * push;
        a.dy += y * push;
        b.dx -= x * push;
        b.dy -= y * push;
      }
    }
    for (const [a, b] of links) {
      const x = a.x - b.x;
      const y = a.y - b.y;
      const pull = (Math.hypot(x, y) / ideal) * 0.22;
      a.dx -= x * pull;
      a.dy -= y * pull;
      b.dx += x * pull;
      b.dy += y * pull;
    }
    for (const point of points) {
      const length = Math.hypot(point.dx, point.dy) || 1;
      const step = Math.min(length, temperature);
      point.x += (point.dx / length) * step;
      point.y += (point.dy / length) * step;
    }
    temperature = Math.max(0.6, temperature * 0.985);
  }
  fit(points, width, height);
  separate(points, width, height);
  return at;
}

/** Move overlapping nodes apart. */
function separate(points, width, height) {
  for (let round = 0; round < 60; round++) {
    for (let i = 0; i < points.length; i++) {
      for (let j = i + 1; j < points.length; j++) {
        const a = points[i];
        const b = points[j];
        const x = a.x - b.x;
        const y = a.y - b.y;
        const far = Math.hypot(x, y) || 1;
        const wanted = a.node.size + b.node.size + GAP;
        if (far >= wanted) continue;
        const shift = (wanted - far) / 2 / far;
        a.x += x * shift;
        a.y += y * shift;
        b.x -= x * shift;
        b.y -= y * shift;
      }
    }
    for (const point of points) {
      point.x = Math.min(width - 20, Math.max(20, point.x));
      point.y = Math.min(height - 20, Math.max(20, point.y));
    }
  }
}

/** Stretch the graph to the frame, with space for labels. */
function fit(points, width, height) {
  for (const [axis, size, pad] of [["x", width, Math.min(90, width * 0.12)], ["y", height, 26]]) {
    const values = points.map((point) => point[axis]);
    const low = Math.min(...values);
    const span = Math.max(...values) - low;
    for (const point of points) point[axis] = span < 1 ? size / 2 : pad + ((point[axis] - low) / span) * (size - 2 * pad);
  }
}

/** Where each label goes without covering a dot or another label; labels without space are left out. */
export function labels(placed, wanted, measure, width) {
  const taken = placed.map(({ x, y, node }) => ({ left: x - node.size, right: x + node.size, top: y - node.size, bottom: y + node.size }));
  const found = new Map();
  for (const point of wanted) {
    const { node, x, y } = point;
    const wide = measure(node.label);
    const gap = node.size + 5;
    const options = [["start", x + gap, y + 4], ["end", x - gap, y + 4], ["middle", x, y - gap - 1], ["middle", x, y + gap + 10]];
    for (const [anchor, left, base] of options) {
      const from = anchor === "start" ? left : anchor === "end" ? left - wide : left - wide / 2;
      const box = { left: from, right: from + wide, top: base - 11, bottom: base + 3 };
      const clear = from > 2 && box.right < width - 2
        && !taken.some((other) => box.left < other.right && box.right > other.left && box.top < other.bottom && box.bottom > other.top);
      if (clear || node.fixed && anchor === "middle") {
        taken.push(box);
        found.set(node.id, { anchor, x: left, y: base });
        break;
      }
    }
  }
  return found;
}
