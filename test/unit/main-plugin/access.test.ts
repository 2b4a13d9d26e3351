import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { decodeNetworkConfig } from "../../../lib/config/decode.ts";
import type { JsonObject } from "../../../lib/json/value.ts";
import { createAccess } from "../../../main-plugin/access.ts";
import { TlsServer } from "../../support/tls-server.ts";

describe("the head start of a plugin", () => {
  let dir: string;
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), "tortie-access-"));
  });
  afterEach(() => rmSync(dir, { recursive: true }));

  function accessOf(change: JsonObject) {
    const config = decodeNetworkConfig({ cniVersion: "1.0.0", name: "net1", type: "tortie", nodename: "node-a", ...change });
    return createAccess(config, {}, { debug() {}, info() {}, error() {}, step() {}, async flush() {} });
  }

  it("connects to the API server, and asks nothing", async () => {
    using server = new TlsServer(() => ({ status: 404 }), { keyPair: undefined });
    const access = accessOf({ datastore_type: "kubernetes", kubernetes: { k8s_api_root: `http://127.0.0.1:${server.port}` } });

    await access.headStart();
    await Bun.sleep(50);

    expect({ connections: server.connections, asked: server.asked }).toEqual({ connections: 1, asked: [] });
    await (await access.datastore())[Symbol.asyncDispose]();
  });

  it("is no failure where there is no way to an API server: whoever asks for the datastore is told", async () => {
    const kubeconfig = join(dir, "missing");
    const access = accessOf({ datastore_type: "kubernetes", kubernetes: { kubeconfig } });

    await access.headStart();

    await expect(access.datastore()).rejects.toThrow(kubeconfig);
  });

  it("leaves a datastore in a file alone", async () => {
    const access = accessOf({ datastore_type: "local", datastore_path: join(dir, "tortie.db") });

    await access.headStart();

    expect(existsSync(join(dir, "tortie.db"))).toBe(false);
  });
});
