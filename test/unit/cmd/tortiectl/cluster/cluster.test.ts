/** What `kubectl tortie` makes of the cluster's objects and of the nodes' answers. */
import { environmentOf } from "../../../../../cmd/tortiectl/cluster/access.ts";
import { AgentSilent, answerOf, askAll, linuxNodes, newestByNode } from "../../../../../cmd/tortiectl/cluster/agents.ts";
import { resultsOfNode } from "../../../../../cmd/tortiectl/cluster/doctor.ts";
import { ageText, shownEndpoints } from "../../../../../cmd/tortiectl/cluster/endpoints.ts";
import { weightOf } from "../../../../../cmd/tortiectl/cluster/explain.ts";
import { kubectlTortie } from "../../../../../cmd/tortiectl/kubectl.ts";
import { NO_COLORS } from "../../../../../cmd/tortiectl/terminal.ts";
import { TortieError } from "../../../../../lib/errors/errors.ts";

const POD = { namespace: "kube-system", name: "tortie-node-1", nodeName: "n1", isRunning: true };

function pod(name: string, node: string, more: { readonly spec?: object; readonly status?: object; readonly created?: string } = {}) {
  return {
    metadata: { namespace: "shop", name, uid: `uid of ${name}`, creationTimestamp: more.created ?? "2026-11-26T10:00:00Z" },
    spec: { nodeName: node, ...more.spec },
    status: { phase: "Running", ...more.status },
  };
}

describe("endpoints", () => {
  const stored = {
    spec: {
      id: 7,
      podUID: "uid of web",
      containerID: "c1",
      addresses: [{ address: "10.0.0.1" }, { address: "fd00::1" }],
      identity: { id: 9 },
    },
    status: { state: "not-ready", problem: "the route is missing" },
  };

  it("have what their agents say, and of pods without an agent's word what the pod says", () => {
    const pods = [pod("web", "n1"), pod("db", "n2", { status: { podIPs: [{ ip: "10.0.0.2" }] } })];
    expect(shownEndpoints(pods, [stored], [])).toEqual([
      {
        ...{
          namespace: "shop",
          pod: "web",
          node: "n1",
          since: "2026-11-26T10:00:00Z",
          state: "not-ready",
          problem: "the route is missing",
        },
        ...{ addresses: ["10.0.0.1", "fd00::1"], endpoint: 7, identity: 9, containerId: "c1" },
      },
      { ...{ namespace: "shop", pod: "db", node: "n2", since: "2026-11-26T10:00:00Z" }, state: "attached", addresses: ["10.0.0.2"] },
    ]);
  });

  it("have the last failure of a pod that waits for its network, and leave out whoever has none of ours", () => {
    const event = (time: string, message: string) => ({ involvedObject: { uid: "uid of new" }, lastTimestamp: time, message });
    const events = [event("2026-11-26T10:02:00Z", "full (addresses-exhausted)"), event("2026-11-26T10:01:00Z", "older")];
    const pods = [
      pod("new", "n1", { status: { phase: "Pending" } }),
      pod("host", "n1", { spec: { hostNetwork: true } }),
      pod("done", "n1", { status: { phase: "Succeeded" } }),
      pod("unscheduled", ""),
    ];
    expect(shownEndpoints(pods, [], events)).toEqual([
      expect.objectContaining({ pod: "new", state: "waiting", addresses: [], problem: "full (addresses-exhausted)" }),
    ]);
  });

  it.each([
    [-5, "0s"],
    [119_000, "119s"],
    [120_000, "2m"],
    [7_200_000, "2h"],
    [200_000_000, "2d"],
    [Number.NaN, "-"],
  ])("are %d ms old: %s", (milliseconds, text) => expect(ageText(milliseconds)).toBe(text));
});

describe("agents' pods", () => {
  const running = { containerStatuses: [{ name: "tortie-node", state: { running: {} } }] };

  it("are one a node, the newest, and running where their container runs", () => {
    const pods = [
      pod("new", "n1", { created: "2026-11-26T11:00:00Z", status: running }),
      pod("old", "n1"),
      pod("crashed", "n2", { status: { containerStatuses: [{ name: "tortie-node", state: { waiting: {} } }] } }),
      pod("unscheduled", ""),
    ];
    expect([...newestByNode(pods).values()].map(({ name, isRunning }) => [name, isRunning])).toEqual([
      ["new", true],
      ["crashed", false],
    ]);
  });

  it("are expected on nodes of Linux alone", () => {
    const node = (name: string, os: string) => ({ metadata: { name, labels: { "kubernetes.io/os": os } } });
    expect(linuxNodes([node("w", "windows"), node("b", "linux"), { metadata: { name: "a" } }])).toEqual(["a", "b"]);
  });

  it("answer with a document, or are silent with what they said instead", () => {
    expect(answerOf("n1", { exit: 1, stdout: '{"results": []}', stderr: "" })).toEqual({ results: [] });
    const silent =
      (stdout: string, stderr = "") =>
      () =>
        answerOf("n1", { exit: 1, stdout, stderr });
    expect(silent("", "tortiectl: there is no command")).toThrow("node n1 does not answer: tortiectl: there is no command");
    expect(silent('{"error": {"word": "internal", "message": "it broke"}}')).toThrow("it broke");
    expect(silent("")).toThrow("printed nothing");
  });

  it("are asked some at a time, and answer in the order of the nodes", async () => {
    let [now, most] = [0, 0];
    const answers = await askAll(
      Array.from({ length: 50 }, (_, index) => index),
      async (index) => {
        most = Math.max(most, ++now);
        await Bun.sleep(50 - index);
        now--;
        return index * 2;
      },
    );
    expect(answers).toEqual(Array.from({ length: 50 }, (_, index) => index * 2));
    expect(most).toBe(16);
  });
});

describe("doctor of a node", () => {
  const result = { group: "host", check: "mtu", status: "failed", object: "eth0", message: "too small", next: "raise it" };

  it("is its report below one line that counts it", async () => {
    const report = { results: [result, { ...result, status: "ok", next: undefined }] };
    expect(await resultsOfNode("n1", POD, async () => report)).toEqual([
      {
        ...{ group: "node n1", check: "node-answers", status: "ok", object: "node n1" },
        message: "1 check failed, 0 warnings, 1 well, 0 not looked at",
      },
      { ...result, group: "node n1: host" },
      expect.objectContaining({ group: "node n1: host", status: "ok" }),
    ]);
  });

  it("is one failure where its agent does not answer, and none where nobody may ask", async () => {
    const fails = (error: unknown) => resultsOfNode("n1", POD, () => Promise.reject(error));
    expect(await fails(new AgentSilent("n1", "nothing came within 30 s"))).toEqual([
      expect.objectContaining({
        status: "failed",
        word: "agent-unreachable",
        message: expect.stringContaining("30 s"),
        next: expect.any(String),
      }),
    ]);
    expect(await fails(new TortieError("exec-forbidden", "ann may not"))).toEqual([
      expect.objectContaining({ status: "skipped", word: "exec-forbidden", next: expect.stringContaining("pods/exec") }),
    ]);
    expect(await resultsOfNode("n1", undefined, async () => ({}))).toEqual([
      expect.objectContaining({ status: "failed", object: "node n1" }),
    ]);
    expect(await resultsOfNode("n1", POD, async () => ({ results: [{ group: 3 }] }))).toEqual([
      expect.objectContaining({ status: "skipped" }),
    ]);
  });
});

it("explain prefers a node on which something is attached, then one that remembers it", () => {
  const weights = [
    { attachments: [{}], history: [], standing: "present" },
    { attachments: [], history: [{}], standing: "past" },
    { attachments: [], history: [], standing: "present" },
    { attachments: [], history: [{}], standing: "absent" },
  ].map(weightOf);
  expect(weights).toEqual([3, 2, 1, 0]);
});

it("options win over what the environment says of API servers", () => {
  const env = { HOME: "/nowhere", K8S_API_ENDPOINT: "http://other", KUBECONFIG: "/a", CALICO_DATASTORE_TYPE: "etcdv3" };
  expect(environmentOf({ kubeconfig: "/b", context: "c" }, env)).toEqual({
    ...{ HOME: "/nowhere", CALICO_DATASTORE_TYPE: "kubernetes", KUBECONFIG: "/b", K8S_CURRENT_CONTEXT: "c" },
  });
  expect(environmentOf({ kubeconfig: undefined, context: undefined }, { HOME: "/nowhere" }).KUBECONFIG).toBe("/nowhere/.kube/config");
  const inPod = { HOME: "/nowhere", KUBERNETES_SERVICE_HOST: "10.0.0.1" };
  expect(environmentOf({ kubeconfig: undefined, context: undefined }, inPod)).not.toHaveProperty("KUBECONFIG");
});

it.each([
  [["explain", "addresses-exhausted"], 0, "tortiectl ipam show --blocks", ""],
  [["explain", "pod"], 2, "", "argument-missing"],
  [["explain", "nonsense", "x"], 2, "", "option-invalid"],
  [["node", "status"], 1, "", "node-needed"],
  [["endpoins"], 2, "", 'kubectl tortie: there is no command "endpoins": did you mean kubectl tortie endpoints?'],
])("kubectl tortie %j ends with %d", async (argv, exit, out, err) => {
  const [outs, errs]: [string[], string[]] = [[], []];
  const terminal = { out: (line: string) => void outs.push(line), err: (line: string) => void errs.push(line), colors: NO_COLORS };
  expect(await kubectlTortie(argv, terminal)).toBe(exit);
  expect(outs.join("\n")).toContain(out);
  expect(errs.join("\n")).toContain(err);
});
