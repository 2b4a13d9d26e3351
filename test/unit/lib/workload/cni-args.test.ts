import { formatAddress } from "../../../../lib/addresses/address.ts";
import { ADDRESS_KEYS, parseCniArgs, podLabelsOf, withIgnoreUnknown } from "../../../../lib/workload/requested.ts";
import { words } from "../../../support/words.ts";

describe("parseCniArgs", () => {
  it("reads nothing from nothing", () => {
    expect(parseCniArgs("")).toEqual({
      podName: "",
      podUid: undefined,
      podNamespace: "",
      ip: undefined,
      mac: "",
      podLabels: "",
      testNamespace: "",
    });
  });

  it("reads every key", () => {
    const args = parseCniArgs(
      "IgnoreUnknown=1;K8S_POD_NAME=web-0;K8S_POD_NAMESPACE=shop;K8S_POD_INFRA_CONTAINER_ID=c1;K8S_POD_UID=u;IP=10.40.0.9;MAC=02-00-00-00-00-01;CNI_TEST_NAMESPACE=plain",
    );
    expect(args).toMatchObject({
      podName: "web-0",
      podNamespace: "shop",
      mac: "02-00-00-00-00-01",
      testNamespace: "plain",
    });
    expect(args.ip && formatAddress(args.ip)).toBe("10.40.0.9");
  });

  // Texts and outcomes of the recordings args-00 … args-17; those with one outcome on ADD and DEL.
  it.each([
    ["x", 'ARGS: invalid pair "x"'],
    ["nonsense", 'ARGS: invalid pair "nonsense"'],
    ["a=b", 'ARGS: unknown args ["a=b"]'],
    ["a=b=c", 'ARGS: invalid pair "a=b=c"'],
    ["IgnoreUnknown=1;x", 'ARGS: invalid pair "x"'],
    ["IgnoreUnknown=maybe", 'ARGS: error parsing value of pair "IgnoreUnknown=maybe": boolean unmarshal error: invalid input maybe'],
    ["ignoreunknown=1;a=b", 'ARGS: unknown args ["ignoreunknown=1" "a=b"]'],
    [";", 'ARGS: invalid pair ""'],
    ["IgnoreUnknown=1;", 'ARGS: invalid pair ""'],
    ["CNI_TEST_NAMESPACE=plain", 'ARGS: unknown args ["CNI_TEST_NAMESPACE=plain"]'],
    ["k8s_pod_name=x", 'ARGS: unknown args ["k8s_pod_name=x"]'],
    ["IgnoreUnknown=1;IgnoreUnknown=0;a=b", 'ARGS: unknown args ["a=b"]'],
    ["a=b;x", 'ARGS: invalid pair "x"'],
    ["IP=10.40.0", 'ARGS: error parsing value of pair "IP=10.40.0": invalid IP address: 10.40.0'],
    ["IP=10.40.0.9/26", 'ARGS: error parsing value of pair "IP=10.40.0.9/26": invalid IP address: 10.40.0.9/26'],
    ["IP=fd80:40::zz", 'ARGS: error parsing value of pair "IP=fd80:40::zz": invalid IP address: fd80:40::zz'],
    ["IP=10.40.0.09", 'ARGS: error parsing value of pair "IP=10.40.0.09": invalid IP address: 10.40.0.09'],
  ])("refuses %j", (text, message) => {
    expect(() => parseCniArgs(text)).toThrow(expect.objectContaining({ word: "arguments-invalid", code: 999, message }));
  });

  it.each(words`
    IgnoreUnknown=TRUE;a=b IgnoreUnknown=0;IgnoreUnknown=1;a=b IgnoreUnknown=1;CNI_TEST_NAMESPACE=plain
    IgnoreUnknown=1;a= a=b;IgnoreUnknown=1 IgnoreUnknown=false K8S_POD_NAME=web-0;K8S_POD_NAMESPACE=shop IP=
    MAC=rubbish
  `)("takes %j", (text) => {
    expect(() => parseCniArgs(text)).not.toThrow();
  });

  it("takes the last one of a repeated key", () => {
    expect(parseCniArgs("K8S_POD_NAME=a;K8S_POD_NAME=b").podName).toBe("b");
    expect(parseCniArgs("IP=10.0.0.1;IP=").ip).toBeUndefined();
  });

  it("reads an IPv4-mapped address as IPv4 (recording ip-text-5)", () => {
    const { ip } = parseCniArgs("IP=::ffff:10.40.0.9");
    expect(ip && formatAddress(ip)).toBe("10.40.0.9");
  });

  it("knows only the address where the IPAM plugin's ADD looks for one, and reads the rest all the same (recording args-09)", () => {
    const pod = "K8S_POD_NAME=web-0;K8S_POD_NAMESPACE=shop";
    expect(() => parseCniArgs(pod, ADDRESS_KEYS)).toThrow('ARGS: unknown args ["K8S_POD_NAME=web-0" "K8S_POD_NAMESPACE=shop"]');
    expect(parseCniArgs(`IgnoreUnknown=1;${pod}`, ADDRESS_KEYS).podName).toBe("web-0");
  });
});

describe("withIgnoreUnknown", () => {
  it("stands alone where there was nothing", () => {
    expect(withIgnoreUnknown("")).toBe("IgnoreUnknown=1");
  });

  it("stands before what was there, so that the runtime's own word counts", () => {
    expect(withIgnoreUnknown("a=b")).toBe("IgnoreUnknown=1;a=b");
    expect(() => parseCniArgs(withIgnoreUnknown("a=b"))).not.toThrow();
    expect(() => parseCniArgs(withIgnoreUnknown("a=b;IgnoreUnknown=0"))).toThrow("unknown args");
  });
});

describe("podLabelsOf", () => {
  it("reads labels that the runtime gives, and none from nothing", () => {
    const labels = (text: string) => podLabelsOf(parseCniArgs(`IgnoreUnknown=1;K8S_POD_LABELS=${text}`));
    expect(labels("")).toEqual({});
    expect(labels("app:web,example.org/tier:db-1,empty:")).toEqual({ app: "web", "example.org/tier": "db-1", empty: "" });
  });

  it.each(["app", "app=web", ":web", "app:web,", "app:web tier:db"])("refuses %j, but not before it is asked", (podLabels) => {
    expect(() => podLabelsOf({ podLabels })).toThrow("K8S_POD_LABELS");
  });
});
