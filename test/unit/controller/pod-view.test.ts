/** What the controller reads of a pod: addresses of its status, and those that its annotations name, within limits. */
import { annotationsCheck } from "../../../controller/health.ts";
import { decodePodView, type PodView } from "../../../controller/view/cluster-view.ts";

const PREFIX = "cni.projectcalico.org/";
const NETWORK_STATUS = "k8s.v1.cni.cncf.io/network-status";
/** A limit of the API server for all annotations of an object together. */
const MOST_ANNOTATIONS = 256 * 1024;

const key = (last: number) => `4:${10n * 2n ** 24n + BigInt(last)}`;
const text = (last: number) => `10.0.${last >> 8}.${last & 255}`;
const list = (count: number, ending = "") => Array.from({ length: count }, (_, index) => `${text(index)}${ending}`).join(",");

function podOf(annotations: Readonly<Record<string, string>>, podIP?: string): PodView {
  const status = podIP === undefined ? {} : { podIP, podIPs: [{ ip: podIP }] };
  return decodePodView({ metadata: { namespace: "ns", name: "web", uid: "u", annotations }, spec: { nodeName: "n" }, status });
}

const namedBy = (pod: PodView) => pod.annotated.prove((keys) => keys);

describe("the addresses of a pod", () => {
  it("are those of its status, apart from those of its annotations", () => {
    const interfaces = JSON.stringify([{ name: "net1", ips: [text(3)], mac: "ee:00:00:00:00:01" }], undefined, 4);
    const pod = podOf(
      { [`${PREFIX}podIP`]: `${text(1)}/32`, [`${PREFIX}podIPs`]: `${text(1)}/32,fd00::1/128`, [NETWORK_STATUS]: interfaces },
      text(2),
    );
    expect(pod.addresses).toEqual([key(2)]);
    expect(namedBy(pod)).toEqual([key(1), `6:${0xfdn * 2n ** 120n + 1n}`, key(3)]);
    expect(pod.isWhole).toBe(true);
  });

  it("are none where the annotations hold no address", () => {
    const pod = podOf({ [`${PREFIX}podIP`]: "nonsense", [NETWORK_STATUS]: "[".repeat(1000), other: text(1) });
    expect([namedBy(pod), pod.isWhole]).toEqual([[], true]);
  });
});

describe("S10: the annotations of a pod", () => {
  it("name 64 addresses at most, and say when there are more", () => {
    const [most, more] = [podOf({ [`${PREFIX}podIPs`]: list(64, "/32") }), podOf({ [`${PREFIX}podIPs`]: list(65, "/32") })];
    expect([namedBy(most).length, most.isWhole]).toEqual([64, true]);
    expect([namedBy(more).length, more.isWhole]).toEqual([64, false]);
  });

  it("that name one address again and again name one", () => {
    const pod = podOf({ [`${PREFIX}podIPs`]: `${text(1)}/32,`.repeat(100) });
    expect([namedBy(pod), pod.isWhole]).toEqual([[key(1)], true]);
  });

  it("are a warning of the health when something is left out", () => {
    expect(annotationsCheck(() => []).look()).toMatchObject({ state: "ok" });
    expect(annotationsCheck(() => ["ns/web"]).look()).toMatchObject({ state: "warning", message: expect.stringContaining("ns/web") });
  });
});

describe("S11: long annotations of a pod", () => {
  it.each([
    ["of addresses", list(MOST_ANNOTATIONS / 14, "/32")],
    ["of what is almost an address", "1:2:3:4:5:6:7 ".repeat(MOST_ANNOTATIONS / 14)],
    ["of one word", "1".repeat(MOST_ANNOTATIONS)],
    ["of brackets", "[".repeat(MOST_ANNOTATIONS)],
  ])("%s are not read to their end", (_, long) => {
    for (const name of [`${PREFIX}podIPs`, NETWORK_STATUS]) {
      const pod = podOf({ [name]: long.slice(0, MOST_ANNOTATIONS) });
      expect([namedBy(pod).length <= 64, pod.isWhole]).toEqual([true, false]);
    }
  });

  it("cost no more than short ones, whichever way they are written", () => {
    const cost = (long: string) => {
      const pod = { [`${PREFIX}podIPs`]: long, [`${PREFIX}podIP`]: long, [NETWORK_STATUS]: long };
      const began = performance.now();
      podOf(pod);
      return performance.now() - began;
    };
    const junk = (length: number) => "1:2:3:4:5:6:7 ".repeat(length / 14);
    const [few, many] = [junk(32 * 1024), junk(MOST_ANNOTATIONS)];
    // The best of several, taken in turns: the rest is the machine's other work. Read to their end they would cost eight times as much.
    const rounds = Array.from({ length: 30 }, () => ({ short: cost(few), long: cost(many) }));
    expect(Math.min(...rounds.map(({ long }) => long))).toBeLessThan(5 * Math.min(...rounds.map(({ short }) => short)));
  });

  it("name no address that the cut would make out of another", () => {
    const blank = " ".repeat(32 * 1024 - "10.0.0.1".length);
    expect(namedBy(podOf({ [`${PREFIX}podIPs`]: `${blank}10.0.0.12` }))).toEqual([]);
  });
});
