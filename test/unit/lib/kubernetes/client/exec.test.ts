/** A program in a pod, over the WebSocket of a server that plays API server and kubelet. */

import { decodeNetworkConfig } from "../../../../../lib/config/decode.ts";
import { ApiConnection } from "../../../../../lib/kubernetes/client/connection.ts";
import { execute } from "../../../../../lib/kubernetes/client/exec.ts";
import { resolveApiConfig } from "../../../../../lib/kubernetes/config/resolve.ts";
import { closing } from "../../../../support/closing.ts";

const TARGET = { namespace: "kube-system", pod: "tortie-node-1", container: "tortie-node" };
const [STDOUT, STDERR, STATUS] = [1, 2, 3];

interface Played {
  /** Pairs of stream and text. */
  readonly messages?: readonly (readonly [number, string])[];
  /** Answers without a WebSocket. */
  readonly refusal?: { readonly status: number; readonly message: string };
  readonly ends?: boolean;
}

function play({ messages = [], refusal, ends = false }: Played) {
  const asked: { url: string; protocol: string | null; token: string | null }[] = [];
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch(request, self) {
      const { headers, url } = request;
      asked.push({ url, protocol: headers.get("sec-websocket-protocol"), token: headers.get("authorization") });
      if (refusal !== undefined) return new Response(JSON.stringify({ kind: "Status", message: refusal.message }), refusal);
      // After the upgrade nothing is answered.
      return self.upgrade(request, { data: undefined }) ? new Response() : new Response("Bad Request", { status: 400 });
    },
    websocket: {
      open(socket) {
        for (const [stream, text] of messages) socket.send(Buffer.concat([Buffer.from([stream]), Buffer.from(text)]));
        if (ends) socket.close();
      },
      message() {},
    },
  });
  server.unref();
  closing({ close: () => void server.stop(true) });
  const env = { K8S_API_ENDPOINT: `http://127.0.0.1:${server.port}` };
  const config = resolveApiConfig(decodeNetworkConfig({ policy: { k8s_auth_token: "secret-token" } }), env);
  const connection = closing(new ApiConnection(config));
  const run = (signal = AbortSignal.timeout(10_000)) => execute(connection, TARGET, ["tortiectl", "explain", "pod a/b"], signal);
  return { asked, run };
}

const status = (object: object): readonly [number, string] => [STATUS, JSON.stringify(object)];
const exitCode = (code: number) =>
  status({ status: "Failure", reason: "NonZeroExitCode", details: { causes: [{ reason: "ExitCode", message: String(code) }] } });

it("gives what the program printed and how it ended, asked for in our name", async () => {
  const messages = [[STDOUT, '{"a":'], [STDERR, "hm"], [STDOUT, "1}"], status({ status: "Success" })] as const;
  const { asked, run } = play({ messages });
  expect(await run()).toEqual({ exit: 0, stdout: '{"a":1}', stderr: "hm" });
  expect(asked).toHaveLength(1);
  expect(asked[0]).toMatchObject({ protocol: expect.stringContaining("v5.channel.k8s.io"), token: "Bearer secret-token" });
  const url = new URL(asked[0]?.url ?? "");
  expect(url.pathname).toBe("/api/v1/namespaces/kube-system/pods/tortie-node-1/exec");
  expect(url.searchParams.getAll("command")).toEqual(["tortiectl", "explain", "pod a/b"]);
  expect(url.searchParams.get("container")).toBe("tortie-node");
});

it("tells an exit status from a program that could not be started", async () => {
  expect(await play({ messages: [exitCode(1)] }).run()).toMatchObject({ exit: 1 });
  await expect(play({ messages: [status({ status: "Failure", message: "no such file" })] }).run()).rejects.toThrow("no such file");
});

it("says in a word that the account may not", async () => {
  const message = 'pods "tortie-node-1" is forbidden: User "ann" cannot get resource "pods/exec"';
  await expect(play({ refusal: { status: 403, message } }).run()).rejects.toMatchObject({
    word: "exec-forbidden",
    message: expect.stringContaining("cannot get resource"),
  });
});

it("says why the server refuses otherwise", async () => {
  await expect(play({ refusal: { status: 404, message: 'pods "tortie-node-1" not found' } }).run()).rejects.toThrow("not found");
});

it("does not wait for a server that says nothing, nor for one that goes away", async () => {
  await expect(play({}).run(AbortSignal.timeout(100))).rejects.toMatchObject({ name: "TimeoutError" });
  await expect(play({ ends: true }).run()).rejects.toThrow("before the program did");
});
