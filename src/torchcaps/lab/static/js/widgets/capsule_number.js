// The number of a primary capsule, from 1: row by row, in a row position by position, at a position type by type. It is
// the order in which the network counts them, and so that of the parts in the view of the votes.

export function capsuleNumber({ row, column, type }, { grid: [, columns], primary }) {
  return 1 + (row * columns + column) * primary.length + type;
}

export function capsuleAt(number, { grid: [, columns], primary: { length: types } }) {
  const index = number - 1;
  return { row: Math.floor(index / (columns * types)), column: Math.floor(index / types) % columns, type: index % types };
}
