/** A binary heap: `pop` returns the first entry in the order of `precedes(a, b)`. */
export class PriorityQueue {
  constructor(precedes) {
    this.precedes = precedes;
    this.heap = [];
  }

  push(entry) {
    const {heap, precedes} = this;
    let place = heap.length;
    while (place > 0) {
      const parent = (place - 1) >> 1;
      if (!precedes(entry, heap[parent])) break;
      heap[place] = heap[parent];
      place = parent;
    }
    heap[place] = entry;
  }

  /** The first entry, which is removed; undefined if there is none. */
  pop() {
    const {heap, precedes} = this;
    const first = heap[0];
    const last = heap.pop();
    const size = heap.length;
    if (size === 0) return first;
    let place = 0;
    for (;;) {
      let child = 2 * place + 1;
      if (child >= size) break;
      if (child + 1 < size && precedes(heap[child + 1], heap[child])) child++;
      if (!precedes(heap[child], last)) break;
      heap[place] = heap[child];
      place = child;
    }
    heap[place] = last;
    return first;
  }
}
