/**
 * Computes where in a pool a host begins to look for a block (I§3.5): the same place every time, and another one for every host, so that
 * hosts spread out. The place is exactly the one Calico takes (recordings start-index-*), so that calico-node and we, claiming
 * at the same time for one host, want the same block.
 *
 * The place is a number below the count of blocks, drawn by Go's math/rand seeded with the FNV-1 hash of the host's name.
 */

/** Has state size and distance of the additive lagged generator (GOROOT/src/math/rand/rng.go). */
const LENGTH = 607;
const LAG = 273;
/** Is 2^31 - 1: modulus of the generator that expands the seed, and of the seed itself. */
const MODULUS = 2_147_483_647;
const MULTIPLIER = 48_271;
/** Counts steps thrown away before the state is filled. */
const WARM_UP = 20;
/** Replaces a seed of zero. */
const SEED_FOR_ZERO = 89_482_311;

/** Returns the index of the block at which `host` begins, among `blocks` blocks. */
export function startIndex(host: string, blocks: bigint): bigint {
  return drawBelow(blocks, generator(fnv1(host)));
}

/** Hashes by FNV-1 with 32 bits: multiply first, then mix in (not FNV-1a). */
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

/** Yields the generator's 32-bit numbers: the upper half of 63 bits. */
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

/** Holds the state, expanded from the seed by a smaller generator. Few of its words are ever looked at: each is made when it is. */
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

/**
 * Figures of Go's math/rand: the 607 words, each 64 bits big-endian, that its additive generator mixes with the seed
 * (GOROOT/src/math/rand/rng.go, `rngCooked`: the generator's state after 7.8e12 steps). Loaded only when a block is claimed.
 */
const WORDS = [
  "xfdKM+uY/+rAe0pBupZfWxNexRPLga8PSgT7XKdDleun6IMcdxDPjn1d5OiPN8HDYyHPd0P/halCywZVap/5YW4myNFA6NfSSadRHzQR+qBx7XdJIqZQVZ1c",
  "n8Zf6i1cP72rOUoBQ2hw+jNZaZI0C64Q+07OpmoC95+8qYu80YqX98yxLqOArAGR15TK8ysbP2oyNCTjLK/GQsySHwEUK6Eihp9P84BopbGjESevOSBbB6T5",
  "vcKdlmoqlzwpgSWGaqQz2/d6UuGDlCFuO4rJntuAqcVRW5l8A8Py7/PL92mmteQx7v8hDA7IUzSZKVP1LmoUMt8Q0em95GKZWdGxSWeZTDh2OHlRDhXUYVWb",
  "rmO9v5bE6dKgd7BPYoZq2iDzIZDaFkbbl79QcYc8GDKVej47UDoZ2pBLM+OIpfLHhSi+xwusGdDodwAlaXD4G/By99GKFPZPqIakbvl4tNRzTHgv8VcxJ6eO",
  "ACQbCtWb66baxUlZH+lbL2GV+vKITC05VpwrvbDvNF0Li2A5UIziHu8VdnBUNdK7HV6QCvXx2PcekC0YfX/UN38ie3yP4Ot5OHkOYgHru5hEgY6seSLhcQZY",
  "1sVQ2tNAhL+4lMxylpqnhVFB47MpvZyzFVaxuudGPKCQBPlob0kMUBRtflCHac012P+TWslw3pgYtKoVVNhN8379ZDPaoPWR6a0FsuBWF2frC9v4Pim4JHKS",
  "U1KZ8rrmRZdaXkzr7Op4FVw7wytOKV5TV6zobouQappPrbsI/VAIavZEY8mtA4Ws/RnW/Lvm1KXh0Tqf/AmfM7ebA5zZeCIkhAxaNRdOOLxF1RrPU/gvn1Te",
  "Tj7hDfoKh7PvDuoJ2ex7Q5dpUZ7Dx8xMUBELR5kPxBPj1T8H4H7PzlvipdLQuLcZIr5FHuofyHzHYchQXt738dbd+27XjgAc6QXXzAo2RPRouhTCMdsuRCnQ",
  "4hzNmpCUPdNmSGn1KI/C0d3Fb2BOFo+1QVHkq7Cx+vbslkfozqe5J3anQhh9vmHegHeNQEl4DjyScURGwmzkE2VHW8AZ53ALDgh4HWDYbRefDw/p1fVx4Edu",
  "Yr8ziG5XjHEM/1JOtOYk6FalnjiZpVSffItXgxiamAhTnAYCABS4/FnuslFUZ/OP/4uEmaYU9aYr5zo9UiJQi4KDK0xIOPUQn8doL/je0xyt8VzFPwzBcgUJ",
  "QGtYJukAcVIQvJb6BwT+NTbTk/vGXJtuzK77SouvxzCSvkAZB/C1mdd4ieoY3gpJuPpYmy8XTnHJgw/wtHC3gKJnhd0gprdhI7FivpHvvSTNxYMi+3u3UCaz",
  "JiPQPRyvmh8E0KXw+Qm8rukhRqp87Z0cjgv82KeeemK2+TrEzwW86D8URcV5oAigN8RAU4iOUnkS0PiPoLIon3sXUfuvXSACvdqK5AOoEspHhA1+ojcyn6RQ",
  "yz8EvwK28gjHlmQ+ijntM/2S157XW2QZIWghyLJY6KzpPTr/e0bpMTawhYz8tytqrl48n+f/EWcq9MOVORzCpebE/Qdv63Z2UO+1+zHt53NtfyQzWdv8rnGT",
  "50A0Dg/bj/Ufc6TG3ZKUU0tu+hypZsBqckUg1w1BMM0WvRkSBZKNRWtYDCzW3FxivA1qhCnvSHROqbjpOV4Y7xSCXISu4UoeMrc6ceI0D+5vJ8RSKMBGTi47",
  "4NLkoSO7Z/SC4WAIDxG1QegkcyeuffkMfSqv11Th9JYULDkaHUAO9iX6QnSZBpZmEM6eEyJFWTTXwcza5kFCObfakiC0n5CR9idVVoKRaz1kKIq9n1LQoccG",
  "b6BkKmZs+4zwoYydmB2wY62DY9+iYVi2fkrOPP426+zC37bk6yulU2T/b9IXng13F9G5caK3NiJH29vlzyXVEMU7kw8orXNzUmFald0BBH/rizCtsUBzWLRa",
  "f7RHdnhMEIMbIOj06wdUBtwnX0C2x8DZcy343aZ7Dye2JjevxITIhWHJhkmDi/Yx3wYf7jAnf1iV0yIFLawUVXrTBIbkeK7pMmciH0rO0UVHmAcFLDVmuKgC",
  "U1CnfqC5Qhp+wvwWnNNXJzqwUSmnALrk9/txn0PyHFvYV+i4v0ja1ZQYaXHzWT9Riq2cQnAUTEPDuMyOghiYH7pWb5LftwesqsVUNcCsX7CIEDjLvI/yQ7VV",
  "bL66c2MUnzA755/U9qreQx9xJHVM0qVXtsvCSyG8aXXBad5yyveM9Ax2gTTxPN1iShIVn9Vz0AQbOQ0+aeqL2Tut6AZXi689eM1h8jMYqTp/aJ3JLadQHL2+",
  "UjVbbUSMm7ESAANlZspm8jG0uJ5R6eK3N+RwRodUHJtozyjfKKNdKTfJi/6ydWlEsLUpwkFDwiNOnPT9eU+NAgaPBZDwaN8V5X3krZitq43ACUFVsYKBlKQG",
  "zkYwJ9T/dD/TBiMRaOwIRa4BmEmGwMM5zGGYNlaYDlq2tLISrz0FGnCq8UpwbOF6NUfLyZXeOkBiArjZ6ehWX4pJ6hgd26w0U6e8uShTzkGiqhMlRqFvOtbB",
  "ZmNLyShikv9qzryToHF6QDKAqWzqUVoYO4+BZlokIitMgNLA5GSFnj1NWLo6prmig4nLL+Vjg6IMuJUS/uTL1pGwYbMMvYg5uvjzrJ8JXd8Ds+3RxLj2JpTE",
  "y4LtCdDGA7mHm9NghVja94BCZlfIf9sbYp4yq9d5ONUWhi/h4zpWlidZ7AAFG8gvF0uQ2as7XevK0lyGqHZr0N2bNdtCXya2g8oUh108K0CgdvZTdGTpinL4",
  "1jQvAt0+6k54QUCXf+hCUnh3+/Aa1JIrHWLKlZwqi07qKWnKfKEQUzgCazZJY1cke9l/fAdkXKeyMrjGP6UK42d7oLf9dHA5R9gjH7Gg3IzgeRa2M0K3yW53",
  "zTmpCdfmgCcUJ2hbGcrs3ZycbNKOkbdNkcH7eQ4NOlR+Z9O9uBu2EdOW/A2J9uIRRX6s+7BJ6yId4Zeb9WVN1V1DbKdYXSjK09fihjIY2Xkvp748z50WRR+3",
  "p+F7nsywKysfztkpwoLYWpA3XmQxDcszahYRIn29Y2kl9br4cM1D4NAlS4RxXggOxXV3IZJHF17kD1j72XE9eMw2W6284YSVoHaDkDKVj4nA0zlqO1Njm6gc",
  "iNiIpj+vjZx3XKeB6sQNP1GdKJMB/jHYx999xANtgAM4fdbbjAYh92giCpdZ1qjMeggnByrqVyr4RnVgHJEBNsn9+cPHPt3+EROF4nntuaKmo4ff1VbRetzF",
  "9vv3Jwn5ayijx1UtafBCjc5qnLu0vpqSwhZPN672yvQcXdNDERDN16mYPHwd5bPMHcoEgxGnYl6r2V7kHLQMqB4sQzhbaOUdv/zTah9w1Pmi/8rqzLknsMtc",
  "P92uQWPgEOQOf1RSqMke4H5hMVRYlwzLi4IcCxAFTHXERM8R+YQGCCU2t6dgL2tNMxeG1aEm+X/Jqc1wg3Lbk9fnWgdUJFHapOWhDShlkQSQJOvL+LjmrwgT",
  "fDOA8yUjMqMRGKleQl+9ZAthQIArHpZ+PNDxKxxfAxCJ6H+6uafxG/uzuj4IQTt/w60NHNNrv7L02Wi3WcNMhHVWSQXSAuCoCypiNvqDhqW4ZxqDOuN5YIgo",
  "64/ljQMry59XIecXEtIk5dx+Ft4p5ouCUeDUlSvASnUIywijhfg1pkgynSVNJ5n3l+wZqEQ6rcB28u0QiTV94nfkZxeveQeutjydbCfOa+AE21s1m78CKNlb",
  "8diuMeF7JeGzYyPpQp6VfbkllQ5fqzx+aCUq6jZxv59ZM7LS70M5MhAsDX7SHsd/yMHqXxKA9I5iRxe3R83zEa5C4AEGDqn6g46sp1CMW8z8hKOqoIQ/BPlj",
  "+Un3pOjr06Uih2ve/UHfbMEkck8H5p58v0cN8j1aprQpmDUgmfWQuBHMkPRYlWU9A1UNoaso+NF4QsxcKxs02wi3mzaUrIQAv3LVC4T5biyUcHn46wj1kGls",
  "tyGCBQhy1Ihbyaw21adsuIi1ef6X4WKUghBSBOT9PO95CBa5NwG9p3omvhNlVvuPhhMU3agoCKK3uAOuW8/TyKke0DIxQIcAAaC4Z+w+5PbB+bCT3eWOCGvs",
  "vAuDeJ51UZfAb/zHJGcF7jTyBPjHknWC1RYmTLPhe6R1RhM8oz8RG1yqtOKiPY4WFEMlXkjxKLNE0IGcbNEi+zmrIE1cKRC/I482qpCurBDgX5u6nVS2sA/k",
  "Ksroj2Q4eg/Ny8RaIF8BRzYJx2jtjra4yC3yJZINQ/0jrCW9rVqKgXlkfryc77kBWqs8HuePpOpzPeMOhdF1eSKkYRI9xeCB/iHchsEQeWdOZokYlz+5Grn7",
  "ANTuVcptjCrVAEdtUhW1tfxQaLPi6m0qIF2pEN0jy4WXm14RNp93WyvIcnR9ZerXlrqDqirBneeiJYcQ06Br1QK8+9kWk0PniO7NmSRrYnMjSzAbLTwDAjxh",
  "CV0JMey/wfvq4lPkRJib+NVuOdKIEO8CXjJ1hSdwO4HYO8alsm10Djrxc1ina1oEkWEMIXg3sjTATulwe7ro1nSBzxLDJD3BqAcS3hTflkbNBWJl5AXJ7VuF",
  "/l3iI8A05jCVFMoApVyxqeo16b2DWF2sFBjPTMa/5rZ65x367d5qgJWEFZiMR4B0pmEI00n0+yhJJgHEbB8emmXnrLhEw/Ig4KOjX8RCJ5esFg1+qb7VWhGt",
  "LBUpvb4s3lKsjaJIbtAWOPsMe+kf3Y+iUFhtBslKIRjPUL4Z8rn8tknlbaMQ0N3v5wKdtNYZf+docKGo6W3UhOtjooA9/YL4WRY6GgpE12RMRholGIu1Uqpi",
  "+j6rGMYgvREz0k9O3RDqmThtOSVlNsxsYH51nvsroeiSHrs9fGxgcZa6awiPhmkvsr0q6ur+0nm3DMLe86sQrCscEoSwttsr19TE21u9/5I/W4GQoKAkHht5",
  "9kV+YM+uoFwxjJQYHpE0gKZxsDPj1XV5lV77uqdVJ3fJ9tDGsNcqDyHC9mYsQ8KGtLxFhpu8PeJmschu0kkFlkeO6AlCxW/TYYsu5q4bPwgHOj5d6ncOeEfQ",
  "HW5xr80fga/E+6r+JL5xxgd4yUAdwrbfBGqWIdCUTpOVD2zP4sdnBB6jQAdSG/nJIGV2xoZreivXcV5Repd1PIx5NkFS2qwZeEpl5AfTEQt8c/frpmsnP7zE",
  "KbcWMC3IWnVUCshA03AKVuTe1odTA/zQW/+rvu0GpeMliHWKZSb4Y2o6Ab562ujmIDjJtL7HW8T0Ctx6ac4Kn8HD+T+FPArbqmS+SLhljjnVtlIzzIjzB8uF",
  "gfSMVmdG5ATm5ysvPhERkm7jrV17QzPVO+v4Cr9E414yTz36KZY3LKYJANWE0ylPz7OXB9PgF8jTPNEJClbyN/rhesflYF1DyMAQbw6tRBmJu6gDeypgvmmZ",
  "mDwSplV9KeyyidT8Y1HcTj7DCIiNIiSSGIx8EVanR2UCeBz4WhCOXV2zscELRBW/9mI7qR63cWoou6PwnGXX9HYHyS8w8Z4EkHg0h52tphHFl5XbcJmadMdD",
  "FXWKo1NtTEARbzI5UlOaxYetl9AfGhZ18olZw4xtePVhnoMkKvHP5WPv960/nSIS5clLHX4CPUZ7N7Yf+qt2ravu6WvP+V3Zkmti0TqieKYhctt2mYKr5RnI",
  "yGc0whGN8fWFfvpzdrZAE2yAmKfQTKKa3i9tnxSwTXfnfks9rQSL7UehTJ7l5JMdMjG69OulQ/M9Cnk6r6Bzc9kmmG6mD+azmjLjHzRPZmNh5vIcvtxEwEnL",
  "xPdSoOteVAOvG5nifUEFIFknQKDluMPdBPxOpftEbJetblh/R6/npt5ULBN7g4SkKg/8D3swHlyCBUcwCl2K9NPGOcIIfcB5CkZ8qHCaK7biQrtrtNo23mB5",
  "sFMeyQN2BYzPmNwYQ/eEF7QXsBGuweze3U/w3WQbjDeHKCNJ6DLV8LuIFufo+4W2UEgP2ML0fUWqc092C21ZYkKFU9IIFEAOK6AZaOfEB34ZuaP3YAAdF1WP",
  "YWQDDHl1MUjA5sWfmnfS8u872ENmbriNhwHhb1Vy5840KIZo642CsVSR1gd3wmWnGuu+VElH3d1vPp4HYo3+Y1x5VYYiZz451D/5m2N+CG3HjPUi7jfjZp9+",
  "nGaS17tHpK/oOB+eq9/b4re9Mk/KavK1wdFZ5KFSUlsbKXyR0QqNdXQOzHxTOn/KldgSZvv3c4ax22iaZrpG0cO9S9ZxsSS1cBosQ/0Knq7ATVgUMRfk4WVV",
  "g1jFuxJIrCOq9ne9gOMKxfyZciek8H+PqEjMXZyw4VBkCnEesOSbQWT8v6Adyjl4mAqrL/9rx4Q5XGdQqkLmXih/6kyWlfP0lRY2F0n2QorJd9WSmZ8hlMRR",
  "Ztn2k1/4p/UDoo9DHKlR06PDUb4Q7PV54IAWKJbp5bXpOFsgKCT7uh5KWbDGDKjeZVgpqrIH4d4EjceLOC50U1qWzHrf135XoZtzXvA7OaAKOjHAJcY=",
];

let bytes: string | undefined;

/** Returns one of the words, as an unsigned integer. */
function generatorWord(index: number): bigint {
  bytes ??= atob(WORDS.join(""));
  let word = 0n;
  for (let byte = index * 8; byte < index * 8 + 8; byte++) word = (word << 8n) | BigInt(bytes.charCodeAt(byte));
  return word;
}
