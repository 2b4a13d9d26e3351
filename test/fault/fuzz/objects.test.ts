/** Objects of the right shape with wrong values inside: configuration, results, annotations, kubeconfigs, stored objects. */

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { readCall } from "../../../lib/cni/request.ts";
import { parseResult, renderResult } from "../../../lib/cni/result.ts";
import { decodeNetworkConfig } from "../../../lib/config/decode.ts";
import { affinityCodec } from "../../../lib/datastore/calico/affinity.ts";
import { blockCodec, handleCodec } from "../../../lib/datastore/calico/block.ts";
import { type Codec, damaged, LEGACY_GROUP } from "../../../lib/datastore/calico/codec.ts";
import { clusterInformationCodec, configurationCodec, poolCodec, reservationCodec } from "../../../lib/datastore/calico/pool.ts";
import { TortieError } from "../../../lib/errors/errors.ts";
import { parseObject, section } from "../../../lib/json/decode.ts";
import { parseJson } from "../../../lib/json/parse.ts";
import { isJsonObject, type JsonObject } from "../../../lib/json/value.ts";
import { resolveApiConfig } from "../../../lib/kubernetes/config/resolve.ts";
import { metadataOf } from "../../../lib/kubernetes/objects.ts";
import { podRequests } from "../../../lib/workload/annotations/requests.ts";
import { TemporaryDirectory } from "../../support/fixtures.ts";
import { corpus, fuzz } from "./fuzz.ts";
import { mutateJson, mutateText, type Random } from "./mutate.ts";

const ENV = { CNI_COMMAND: "ADD", CNI_CONTAINERID: "c", CNI_NETNS: "/n", CNI_IFNAME: "eth0", CNI_PATH: "/p" };
const NETCONF = corpus<Record<string, unknown>>("netconf");

describe("Fuzzing: whatever is inside,", () => {
  it("a network configuration is refused with a word, or decoded", () => {
    const run = (netconf: unknown): void => {
      decodeNetworkConfig(readCall(ENV, () => new TextEncoder().encode(JSON.stringify(netconf))).netconf);
    };
    expectBoth(fuzz<unknown>({ inputs: NETCONF, mutate: mutateJson, answers: [TortieError], run, count: 5_000 }));
  });

  it("a previous result is refused with a word, or can be printed again", () => {
    const run = (result: unknown): void => {
      renderResult(parseResult(parseJson(JSON.stringify(result)), "1.0.0"), "1.0.0");
    };
    expectBoth(fuzz<unknown>({ inputs: corpus("result"), mutate: mutateJson, answers: [TortieError], run, count: 5_000 }));
  });

  it("annotations are refused with a word, or understood", () => {
    const configs = NETCONF.map((netconf) => decodeNetworkConfig({ ...jsonObject(netconf), policy: { type: "k8s" } }));
    const run = (annotations: unknown): void => {
      for (const config of configs) {
        const pod = { namespace: "default", name: "web", annotations: annotations as Record<string, string> };
        podRequests(pod, { name: "default", annotations: pod.annotations }, config, { mac: undefined, addresses: [] });
      }
    };
    const mutate = (random: Random, annotations: unknown, all: readonly unknown[]) =>
      Object.fromEntries(
        Object.entries(annotations as Record<string, string>).map(([key, value]) => {
          const others = all.flatMap((each) => Object.values(each as Record<string, string>));
          return [key, mutateText(random, value, others)];
        }),
      );
    expectBoth(fuzz<unknown>({ inputs: corpus("annotations"), mutate, answers: [TortieError], run, count: 5_000 }));
  });

  it("a kubeconfig is refused with a word, or names a server", () => {
    using folder = new TemporaryDirectory();
    const path = join(folder.path, "kubeconfig");
    const settings = decodeNetworkConfig({ name: "n", kubernetes: { kubeconfig: path } });
    const run = (text: string): void => {
      writeFileSync(path, text);
      expect(typeof resolveApiConfig(settings, { HOME: folder.path }).server).toBe("object");
    };
    expectBoth(fuzz<string>({ inputs: corpus("kubeconfig"), mutate: mutateText, answers: [TortieError], run, count: 3_000 }));
  });

  it("a stored object is refused as damaged, or decoded and encoded again", () => {
    const run = ({ codec, object }: Stored): void => READERS[codec](JSON.stringify(object));
    const mutate = (random: Random, { codec, object }: Stored): Stored => ({ codec, object: mutateJson(random, object) });
    expectBoth(fuzz<Stored>({ inputs: corpus("stored"), mutate, answers: [TortieError], run, count: 8_000 }));
  });
});

const READERS = {
  affinity: readerOf(affinityCodec),
  block: readerOf(blockCodec),
  clusterInformation: readerOf(clusterInformationCodec),
  configuration: readerOf(configurationCodec),
  handle: readerOf(handleCodec),
  pool: readerOf(poolCodec),
  reservation: readerOf(reservationCodec),
};

interface Stored {
  readonly codec: keyof typeof READERS;
  readonly object: unknown;
}

/** Reads the text as the store does, and writes what it says. */
function readerOf<K, T>(codec: Codec<K, T>): (text: string) => void {
  return (text) => {
    const parsed = plain(() => parseObject((codec.prepare ?? String)(text)));
    const value = plain(() =>
      codec.decode({ metadata: metadataOf(parsed), spec: section(parsed, "spec"), status: section(parsed, "status") }),
    );
    plain(() => codec.verify?.(value));
    JSON.stringify(codec.encode(value, LEGACY_GROUP));
  };
}

/** What the store makes of an error of a codec. A TypeError and the like is no judgement about the object. */
function plain<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof TypeError || error instanceof RangeError || error instanceof ReferenceError) throw error;
    throw damaged("object", error);
  }
}

function jsonObject(value: unknown): JsonObject {
  const parsed = parseJson(JSON.stringify(value));
  if (!isJsonObject(parsed)) throw new Error("no object");
  return parsed;
}

/** A loop that refuses everything, or nothing, shows nothing. */
function expectBoth({ accepted, refused }: { readonly accepted: number; readonly refused: number }): void {
  expect(accepted).toBeGreaterThan(100);
  expect(refused).toBeGreaterThan(100);
}
