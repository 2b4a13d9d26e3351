import { qosControlsOf } from "../../../../lib/workload/qos-controls.ts";

/** Keys without "/" get Calico's prefix. */
function read(annotations: Readonly<Record<string, string>>) {
  return qosControlsOf(
    Object.fromEntries(
      Object.entries(annotations).map(([key, value]) => [key.includes("/") ? key : `qos.projectcalico.org/${key}`, value]),
    ),
  );
}

describe("limits of a pod", () => {
  it("are absent when no annotation speaks of them", () => {
    expect(read({ "cni.projectcalico.org/podIP": "10.0.0.1/32" })).toEqual({ controls: undefined, warnings: [] });
  });

  it("are taken as they are within their bounds (C§3.4)", () => {
    const limits = [
      ["ingressBandwidth", "1M", 1_000_000],
      ["egressBandwidth", "2M", 2_000_000],
      ["ingressBurst", "3M", 3_000_000],
      ["egressBurst", "4M", 4_000_000],
      ["ingressPeakrate", "5M", 5_000_000],
      ["egressPeakrate", "6M", 6_000_000],
      ["ingressMinburst", "7k", 7_000],
      ["egressMinburst", "8k", 8_000],
      ["ingressPacketRate", "9k", 9_000],
      ["egressPacketRate", "10k", 10_000],
      ["ingressPacketBurst", "11", 11],
      ["egressPacketBurst", "12", 12],
      ["ingressMaxConnections", "13M", 13_000_000],
      ["egressMaxConnections", "14M", 14_000_000],
      ["dscp", "af11", "AF11"],
    ] as const;
    expect(read(Object.fromEntries(limits.map(([key, text]) => [key, text])))).toEqual({
      controls: Object.fromEntries(limits.map(([key, , value]) => [key, value])),
      warnings: [],
    });
  });

  it("get the default bursts with a rate", () => {
    expect(read({ ingressBandwidth: "1M", egressPacketRate: "100" }).controls).toEqual({
      ingressBandwidth: 1_000_000,
      ingressBurst: 4_294_967_296,
      egressPacketRate: 100,
      egressPacketBurst: 5,
    });
  });

  it("of Kubernetes count where Calico's own are silent, each direction for itself", () => {
    const kubernetes = { "kubernetes.io/ingress-bandwidth": "10M", "kubernetes.io/egress-bandwidth": "20M" };
    expect(read({ ...kubernetes, ingressBandwidth: "1M" }).controls).toMatchObject({
      ingressBandwidth: 1_000_000,
      egressBandwidth: 20_000_000,
    });
  });

  const BOUNDS: readonly [string, number, number, Readonly<Record<string, string>>][] = [
    ["Bandwidth", 1_000, 1_000_000_000_000_000, {}],
    ["Burst", 1_000, 34_359_738_360, { Bandwidth: "1M" }],
    ["Peakrate", 1_010, 1_010_000_000_000_000, { Bandwidth: "1k" }],
    ["Minburst", 1_000, 100_000_000, { Bandwidth: "1k", Peakrate: "2k" }],
    ["PacketRate", 1, 10_000, {}],
    ["PacketBurst", 1, 10_000, { PacketRate: "1" }],
    ["MaxConnections", 1, 4_294_967_295, {}],
  ];

  it.each(BOUNDS.flatMap((row) => (["ingress", "egress"] as const).map((direction) => [direction, ...row] as const)))(
    "%s%s is brought within %i and %i, with a warning",
    (direction, stem, min, max, needed) => {
      const given = (value: string) =>
        read(Object.fromEntries(Object.entries({ ...needed, [stem]: value }).map(([name, text]) => [`${direction}${name}`, text])));
      const key = `${direction}${stem}`;
      for (const [value, expected] of [
        ["0", min],
        ["-1", min],
        ["1Ei", max],
      ] as const) {
        const { controls, warnings } = given(value);
        expect(controls).toMatchObject({ [key]: expected });
        expect(warnings).toEqual([
          `annotation qos.projectcalico.org/${key}: ${value} is not between ${min} and ${max}; ${expected} is used`,
        ]);
      }
      for (const bound of [min, max]) expect(given(String(bound)).warnings).toEqual([]);
    },
  );

  it.each([
    ["ingressBurst", { ingressBurst: "1M" }],
    ["egressPeakrate", { egressPeakrate: "1M" }],
    ["ingressPeakrate", { ingressBandwidth: "1M", ingressPeakrate: "1M" }],
    ["egressMinburst", { egressBandwidth: "1M", egressMinburst: "1k" }],
    ["ingressPacketBurst", { ingressPacketBurst: "5" }],
    ["egressBandwidth", { egressBandwidth: "fast" }],
    ["ingressMaxConnections", { ingressMaxConnections: "" }],
    ["dscp", { dscp: "64" }],
    ["dscp", { dscp: "-1" }],
    ["dscp", { dscp: "AF44" }],
    ["dscp", { dscp: "" }],
  ])("%s is dropped with a warning from %j", (name, annotations) => {
    const { controls, warnings } = read(annotations);
    expect(controls ?? {}).not.toHaveProperty(name);
    expect(warnings).toEqual([expect.stringContaining(`annotation qos.projectcalico.org/${name} is ignored: `)]);
  });

  it("leave nothing when none is left, though a peak rate takes its minimum burst along", () => {
    const { controls, warnings } = read({ ingressPeakrate: "1M", ingressMinburst: "1k" });
    expect(controls).toBeUndefined();
    expect(warnings).toHaveLength(2);
  });

  it.each([
    ["0", 0],
    ["63", 63],
    ["ef", "EF"],
    ["DF", "DF"],
    ["AF43", "AF43"],
    ["cs0", "CS0"],
    ["CS6", "CS6"],
  ])("marks packets with the code point %s", (text, dscp) => {
    expect(read({ dscp: text })).toEqual({ controls: { dscp }, warnings: [] });
  });
});
