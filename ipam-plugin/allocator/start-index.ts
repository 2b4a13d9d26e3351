/**
 * Where in a pool a host begins to look for a block (I§3.5): the same place every time, and another one for every host, so that
 * hosts spread out. The place is exactly the one Calico takes (recordings start-index-*), so that calico-node and we, claiming
 * at the same time for one host, want the same block.
 *
 * The place is a number below the count of blocks, drawn by Go's math/rand seeded with the FNV-1 hash of the host's name.
 */
import { generatorWord } from "./generator-words.ts";

/** State size and distance of the additive lagged generator (GOROOT/src/math/rand/rng.go). */
const LENGTH = 607;
const LAG = 273;
/** 2^31 - 1: modulus of the generator that expands the seed, and of the seed itself. */
const MODULUS = 2_147_483_647;
const MULTIPLIER = 48_271;
/** Steps thrown away before the state is filled. */
const WARM_UP = 20;
/** What a seed of zero is replaced by. */
const SEED_FOR_ZERO = 89_482_311;

/** Index of the block at which `host` begins, among `blocks` blocks. */
export function startIndex(host: string, blocks: bigint): bigint {
  return drawBelow(blocks, generator(fnv1(host)));
}

/** FNV-1 with 32 bits: multiply first, then mix in (not FNV-1a). */
function fnv1(text: string): number {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) hash = (Math.imul(hash, 0x01000193) ^ byte) >>> 0;
  return hash;
}

/** Draws words of 64 bits, lowest first, until the number they make is below `limit` (GOROOT/src/math/big/nat.go, `random`). */
function drawBelow(limit: bigint, uint32: () => bigint): bigint {
  const bits = BigInt(limit.toString(2).length);
  const words = (bits + 63n) / 64n;
  for (;;) {
    let value = 0n;
    for (let word = 0n; word < words; word++) {
      const low = uint32();
      value |= (low | (uint32() << 32n)) << (word * 64n);
    }
    value = BigInt.asUintN(Number(bits), value);
    if (value < limit) return value;
  }
}

/** The generator's 32-bit numbers: the upper half of 63 bits. */
function generator(seed: number): () => bigint {
  const state = new State(seed);
  let tap = 0;
  let feed = LENGTH - LAG;
  return () => {
    tap = (tap + LENGTH - 1) % LENGTH;
    feed = (feed + LENGTH - 1) % LENGTH;
    const sum = BigInt.asUintN(64, state.get(feed) + state.get(tap));
    state.set(feed, sum);
    return (sum >> 31n) & 0xffff_ffffn;
  };
}

/** The state, expanded from the seed by a smaller generator. Few of its words are ever looked at: each is made when it is. */
class State {
  readonly #words: (bigint | undefined)[] = [];
  readonly #steps = new Float64Array(3 * LENGTH);

  constructor(seed: number) {
    let x = seed % MODULUS || SEED_FOR_ZERO;
    for (let step = -WARM_UP; step < this.#steps.length; step++) {
      // The product stays below 2^47: exact.
      x = (x * MULTIPLIER) % MODULUS;
      if (step >= 0) this.#steps[step] = x;
    }
  }

  get(index: number): bigint {
    return (
      this.#words[index] ??
      generatorWord(index) ^ (this.#step(3 * index) << 40n) ^ (this.#step(3 * index + 1) << 20n) ^ this.#step(3 * index + 2)
    );
  }

  set(index: number, word: bigint): void {
    this.#words[index] = word;
  }

  #step(index: number): bigint {
    return BigInt(this.#steps[index] ?? 0);
  }
}
