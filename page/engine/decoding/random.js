/**
 * The random numbers of torch's CPU generator: a Mersenne Twister, of which `torch.rand(n, dtype=torch.float64)` takes two numbers of 32 bits
 * for each of its own. So the same seed samples the same text as generate.py.
 */

const [SIZE, SHIFT] = [624, 397];

/** A function that returns the next number in [0, 1). seed: a whole number, at least 0; its lower 32 bits count. */
export function uniformNumbers(seed) {
  const state = new Uint32Array(SIZE);
  state[0] = Number(BigInt.asUintN(32, BigInt(seed)));
  for (let i = 1; i < SIZE; i++) state[i] = Math.imul(1812433253, state[i - 1] ^ (state[i - 1] >>> 30)) + i;
  let place = SIZE;

  function next32() {
    if (place === SIZE) {
      place = 0;
      for (let i = 0; i < SIZE; i++) {
        const mixed = (state[i] & 0x80000000) | (state[(i + 1) % SIZE] & 0x7fffffff);
        state[i] = state[(i + SHIFT) % SIZE] ^ (mixed >>> 1) ^ (mixed & 1 ? 0x9908b0df : 0);
      }
    }
    let bits = state[place++];
    bits ^= bits >>> 11;
    bits ^= (bits << 7) & 0x9d2c5680;
    bits ^= (bits << 15) & 0xefc60000;
    return (bits ^ (bits >>> 18)) >>> 0;
  }

  return () => {
    const [high, low] = [next32(), next32()];
    return ((high & 0x1fffff) * 2 ** 32 + low) * 2 ** -53; // the lower 53 of 64 bits
  };
}
