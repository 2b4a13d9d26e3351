/** M5: a node behind something that refuses what it is asked and shows the request: no part of the token reaches the pod's events or a log. */
import { readFileSync } from "node:fs";
import { shared } from "../../../support/fixtures.ts";
import { ApiServerNode } from "../../../support/kubernetes/api-server-node.ts";
import { startCluster } from "../../../support/kubernetes/test-cluster.ts";

const cluster = shared(startCluster);
const proxy = shared(() => cluster.proxy());

const status = (message: string) => JSON.stringify({ kind: "Status", apiVersion: "v1", status: "Failure", reason: "Forbidden", message });
const FORMS: readonly (readonly [number, string, (head: string) => string])[] = [
  [403, "text/plain", (head) => head],
  [403, "application/json", status],
  [400, "text/html", (head) => `<html><pre>${head}</pre></html>`],
  [418, "text/html", (head) => head.replace(/.{9}/g, "$&<wbr>")],
  [406, "text/plain", (head) => btoa(head)],
  [422, "application/json", (head) => status(btoa(head))],
  [200, "text/html", (head) => head],
];

describe("M5: a refusal that repeats the request", () => {
  it("is told in the CNI error, on standard error and in the log without the token, at every request", async () => {
    await using node = await ApiServerNode.create(cluster, { via: proxy, pools: ["10.60.0.0/26"], pods: ["pod"] });
    const logFile = `${node.node.dir}/cni.log`;

    for (const [code, type, write] of FORMS) {
      for (const nth of [1, 2, 4, 10]) {
        proxy.clear();
        proxy.requests.length = 0;
        proxy.on({ nth }, { kind: "echo", status: code, type, write });

        const { exit, stdout, stderr } = await node.call("ADD", { conf: { log_level: "debug", log_file_path: logFile } });

        const token = String(proxy.requests[0]?.headers.authorization).replace("Bearer ", "");
        expect({ exit, isLong: token.length > 100 }).toEqual({ exit: 1, isLong: true });
        expect(JSON.parse(stdout).msg).toMatch(/status \d{3}|this is no Kubernetes API server|\[hidden\]/);
        const said = [stdout, stderr, readFileSync(logFile, "utf8")].join("\n").replace(/<[^<>]*>|[^A-Za-z0-9]/g, "");
        for (const form of [token, btoa(`Bearer ${token}`), btoa(`earer ${token}`), btoa(`arer ${token}`)]) {
          const letters = form.slice(12).replace(/[^A-Za-z0-9]/g, "");
          for (let at = 0; at + 16 <= letters.length; at += 4) expect(said).not.toContain(letters.slice(at, at + 16));
        }
      }
    }
  });
});
