// Animates one number up and down, from its current value; stopping restores that value.

const PERIOD = 3200; // milliseconds

// onMove(key, value); onChange(key or null) when the animation starts or stops
export function createOscillator(amplitude, onMove, onChange) {
  let key = null;
  let frame = null;
  let initial = 0;

  function stop() {
    if (key === null) return;
    cancelAnimationFrame(frame);
    const last = key;
    key = null;
    onMove(last, initial);
    onChange(null);
  }

  function toggle(next, value) {
    const same = next === key;
    stop();
    if (same) return;
    key = next;
    initial = value;
    onChange(key);
    const phase = Math.asin(Math.max(-1, Math.min(1, value / amplitude)));
    const start = performance.now();
    const tick = (now) => {
      if (key !== next) return;
      onMove(key, amplitude * Math.sin(phase + ((now - start) / PERIOD) * 2 * Math.PI));
      frame = requestAnimationFrame(tick);
    };
    frame = requestAnimationFrame(tick);
  }

  return {
    stop,
    toggle,
    get active() {
      return key !== null;
    },
  };
}
