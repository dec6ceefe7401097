// Swings one number to and fro, starting where it stands and returning there when stopped.

const PERIOD = 3200; // milliseconds

// onMove(key, value); onChange(key or null) when the swinging starts or stops
export function createSwing(reach, onMove, onChange) {
  let key = null;
  let frame = null;
  let home = 0;

  function stop() {
    if (key === null) return;
    cancelAnimationFrame(frame);
    const last = key;
    key = null;
    onMove(last, home);
    onChange(null);
  }

  function toggle(next, value) {
    const same = next === key;
    stop();
    if (same) return;
    key = next;
    home = value;
    onChange(key);
    const phase = Math.asin(Math.max(-1, Math.min(1, value / reach)));
    const start = performance.now();
    const tick = (now) => {
      if (key !== next) return;
      onMove(key, reach * Math.sin(phase + ((now - start) / PERIOD) * 2 * Math.PI));
      frame = requestAnimationFrame(tick);
    };
    frame = requestAnimationFrame(tick);
  }

  return { stop, toggle };
}
