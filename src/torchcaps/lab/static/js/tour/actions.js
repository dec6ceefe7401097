// What the tour does in place of a visitor: it opens views, draws, moves sliders and presses buttons. Views mark the
// controls that it moves with data-tour.

const FRAME = 40; // milliseconds between two changes that are shown as a movement
const still = matchMedia("(prefers-reduced-motion: reduce)");

// Stops the actions of a step that was left.
export class Canceled extends Error {}

// isCurrent() tells whether the step is still the current one.
export function createActions(open, isCurrent) {
  async function pause(milliseconds) {
    await new Promise((resolve) => { setTimeout(resolve, milliseconds); });
    if (!isCurrent()) throw new Canceled();
  }

  // Until no request is pending.
  async function idle() {
    do await pause(FRAME);
    while (document.getElementById("stage").getAttribute("aria-busy") !== "false");
  }

  // show(share) with shares up to 1; with reduced motion only the last.
  async function animate(seconds, show) {
    const steps = still.matches ? 1 : Math.round((seconds * 1000) / FRAME);
    for (let step = 1; step <= steps; step += 1) {
      show(step / steps);
      if (step < steps) await pause(FRAME);
    }
  }

  function control(name) {
    return document.querySelector(`[data-tour="${name}"]`);
  }

  return {
    // Opens a view with settings, as a link does; returns the view.
    async visit(address) {
      if (location.hash !== `#${address}`) location.hash = address;
      await idle();
      return open(address.split("?")[0]);
    },

    async draw(view, strokes) {
      const count = strokes.flat().length;
      await animate(1.6, (share) => {
        let left = Math.max(1, Math.round(share * count));
        const part = strokes.map((stroke) => stroke.slice(0, Math.max(0, (left -= stroke.length) + stroke.length)));
        view.drawing.restore({ strokes: part.filter((stroke) => stroke.length), example: null });
      });
      await idle();
    },

    // Moves a slider from one share of its range to another; returns the two values.
    async slide(name, from, to, seconds = 1.2) {
      const found = control(name);
      const input = found.matches("input") ? found : found.querySelector('input[type="range"]');
      const [min, max] = [Number(input.min), Number(input.max)];
      const set = (share) => {
        input.value = min + share * (max - min);
        input.dispatchEvent(new Event("input", { bubbles: true }));
      };
      set(from);
      const before = Number(input.value);
      await idle();
      await animate(seconds, (share) => set(from + share * (to - from)));
      await idle();
      return [before, Number(input.value)];
    },

    async press(name) {
      control(name).click();
      await pause(still.matches ? 0 : 1000); // what it starts may move
      await idle();
    },
  };
}
