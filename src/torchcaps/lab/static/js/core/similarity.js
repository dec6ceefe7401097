// Poses (a, b, x, y): they scale and turn a point by (a, b), then move it by (x, y).

export function pose({ x, y, angle, scale }) {
  const turn = (angle * Math.PI) / 180;
  return [scale * Math.cos(turn), scale * Math.sin(turn), x, y];
}

// First `inner`, then `outer`.
export function compose([a, b, x, y], [c, d, p, q]) {
  return [a * c - b * d, a * d + b * c, a * p - b * q + x, b * p + a * q + y];
}

export function degrees([a, b]) {
  return (Math.atan2(b, a) * 180) / Math.PI;
}

// An angle in degrees, with an arrow for its direction; above 0 is against the clock.
export function turnText(angle) {
  const whole = Math.round(angle);
  if (whole === 0) return "0°";
  return whole > 0 ? `↺ ${whole}°` : `↻ ${-whole}°`;
}

export function scaleOf([a, b]) {
  return Math.hypot(a, b);
}

export function matrix([a, b, x, y]) {
  return `matrix(${[a, b, -b, a, x, y].map((value) => value.toFixed(5)).join(" ")})`;
}

// Between two poses: angle, scale and place change evenly, the angle the shorter way round.
export function between(from, to, share) {
  const turn = ((degrees(to) - degrees(from) + 540) % 360) - 180;
  const mix = (start, end) => start + (end - start) * share;
  return pose({
    x: mix(from[2], to[2]), y: mix(from[3], to[3]), angle: degrees(from) + turn * share, scale: mix(scaleOf(from), scaleOf(to)),
  });
}
