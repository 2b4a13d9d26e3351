/** A real runtime: Debian's containerd and runc run containers on one conflist of tortie, portmap and bandwidth. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { dualIpam, localConf } from "../support/conf.ts";
import { Containerd, IMAGE } from "../support/containerd/containerd.ts";
import { until } from "../support/kubernetes/until.ts";
import { BIN_DIR, Node, type Pod, REFERENCE_PLUGINS_DIR, type RunResult } from "../support/node.ts";
import { addOutside } from "../support/outside.ts";
import { readStore } from "../support/store.ts";

const HOST_ADDRESS = "192.0.2.1";

/** containerd needs the machine's control groups, which an ordinary user's namespaces do not have. */
const isRoot = readFileSync("/proc/self/uid_map", "utf8").trim().split(/\s+/).at(-1) === "4294967295";
const asRoot = isRoot ? describe : describe.skip;

/** A node whose one uplink leads to a host of its own, and containerd on it. */
async function createMachine() {
  const node = await Node.create();
  const outside = await addOutside(node, { link: "up0", host: [`${HOST_ADDRESS}/24`], outside: ["192.0.2.2/24"] });
  // Proxy ARP answers for the pods' next hop only on a node that could reach it by another link: one with a default route.
  await node.ip("route", "add", "default", "via", "192.0.2.2");

  const { cniVersion, name, ...main } = localConf(node, { ipam: dualIpam("46") });
  const plugins = [
    main,
    { type: "portmap", capabilities: { portMappings: true } },
    { type: "bandwidth", capabilities: { bandwidth: true } },
  ];
  const conflist = { cniVersion, name, plugins };
  const containerd = await Containerd.start(node, [BIN_DIR, REFERENCE_PLUGINS_DIR], conflist);
  const dispose = async () => {
    await containerd[Symbol.asyncDispose]();
    await node[Symbol.asyncDispose]();
  };
  return { node, outside, containerd, conflist, [Symbol.asyncDispose]: dispose };
}

/** A container's command: serves one line, its own name, on port 80. */
function serve(name: string): string[] {
  return ["/bin/sh", "-c", `echo ${name} > /www/index.html; exec httpd -f -p 80 -h /www`];
}

/** A container's command that prints the page of an address; busybox has no working wget without a C library. */
function fetchFrom(address: string): string[] {
  return ["/bin/sh", "-c", `printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 30 ${address} 80`];
}

async function curl(node: Node, url: string, from?: Pod): Promise<RunResult> {
  return node.run(
    ["/usr/bin/curl", "--silent", "--max-time", "5", "--retry", "20", "--retry-connrefused", "--retry-delay", "0", url],
    {},
    from,
  );
}

async function expectNothingLeft(node: Node): Promise<void> {
  const { links, routes } = await node.leftovers();
  expect({ links: links.filter((name) => name !== "up0"), routes: routes.filter((route) => !route.endsWith("dev up0")) }).toEqual({
    links: [],
    routes: [],
  });
  expect(await readStore(node)).toEqual({ allocated: [], handles: [], endpoints: [] });
  expect((await node.run(["/usr/sbin/iptables", "-t", "nat", "-S"])).stdout).not.toContain("--dport");
}

asRoot("containerd with a conflist of tortie, portmap and bandwidth", () => {
  it("wires containers of `ctr run --cni` that reach each other and are reached from the host, and unwires them", async () => {
    await using machine = await createMachine();
    const { node, containerd } = machine;
    // Attached, so that containerd itself runs the DEL when the container ends.
    const running = ["one", "two"].map((name) => containerd.ctrRun("run", "--cni", "--rm", IMAGE, name, ...serve(name)));
    let addresses: (readonly string[])[] = [];
    await until("both containers have their addresses", async () => {
      const { allocated, endpoints } = await readStore(node);
      addresses = ["one", "two"].map((name) => endpoints.find((each) => each.containerID === `default-${name}`)?.ipNetworks ?? []);
      return allocated.length === 4 && addresses.every((each) => each.length === 2);
    });
    const [[one4 = "", one6 = ""] = [], [two4 = ""] = []] = addresses.map((networks) => networks.map((each) => each.split("/")[0] ?? ""));

    expect((await curl(node, `http://${one4}/`)).stdout).toBe("one\n");
    expect((await curl(node, `http://[${one6}]/`)).stdout).toBe("one\n");
    expect(await containerd.ctr("task", "exec", "--exec-id", "x", "one", ...fetchFrom(two4))).toMatch(/\r\n\r\ntwo\n$/);
    expect(await containerd.ctr("task", "exec", "--exec-id", "y", "two", ...fetchFrom(one6))).toMatch(/\r\n\r\none\n$/);

    for (const name of ["one", "two"]) await containerd.ctr("task", "kill", "--signal", "KILL", name);
    await Promise.all(running);
    await expectNothingLeft(node);
  });

  it("gives pods of the CRI their host port and rate limit, as a kubelet asks for them, and frees everything with them", async () => {
    await using machine = await createMachine();
    const { node, outside, containerd } = machine;
    const web = await containerd.cri.runPod({
      name: "web",
      command: serve("web"),
      portMappings: [{ hostPort: 8080, containerPort: 80 }],
      annotations: { "kubernetes.io/ingress-bandwidth": "8M" },
    });
    const client = await containerd.cri.runPod({ name: "client", command: serve("client") });

    expect((await curl(node, `http://${web.ip}/`)).stdout).toBe("web\n");
    expect((await curl(node, `http://${HOST_ADDRESS}:8080/`, outside)).stdout).toBe("web\n");
    expect((await curl(node, `http://${HOST_ADDRESS}:8080/`)).stdout).toBe("web\n");
    expect((await containerd.cri.exec(client, ...fetchFrom(web.ip))).stdout).toMatch(/\r\n\r\nweb\n$/);
    expect((await containerd.cri.exec(web, ...fetchFrom(client.ip))).stdout).toMatch(/\r\n\r\nclient\n$/);
    const { endpoints } = await readStore(node);
    expect(endpoints.map(({ pod, namespace }) => `${namespace}/${pod}`).toSorted()).toEqual(["default/client", "default/web"]);
    const host = endpoints.find(({ pod }) => pod === "web")?.interfaceName ?? "";
    const qdiscs = JSON.parse((await node.run(["/usr/sbin/tc", "-j", "qdisc", "show", "dev", host])).stdout);
    // The qdisc counts in bytes a second.
    expect(qdiscs).toContainEqual(expect.objectContaining({ kind: "tbf", options: expect.objectContaining({ rate: 1_000_000 }) }));

    for (const pod of [web, client]) {
      await containerd.cri.stopPod(pod);
      await containerd.cri.stopPod(pod);
      await containerd.cri.removePod(pod);
    }
    await expectNothingLeft(node);
  });

  it("runs a container in a namespace that tortiectl attached with a host port", async () => {
    await using machine = await createMachine();
    const { node, outside, containerd, conflist } = machine;
    const file = join(node.dir, "net.conflist");
    writeFileSync(file, JSON.stringify(conflist));
    const place = [file, "made", "--cni-path", `${BIN_DIR}:${REFERENCE_PLUGINS_DIR}`];
    const tortiectl = (verb: string, ...options: string[]) =>
      containerd.run([join(BIN_DIR, "tortiectl"), "cni", verb, ...place, ...options]);
    await containerd.run(["/usr/sbin/ip", "netns", "add", "made"]);

    const added = await tortiectl("add", "--port-mapping", "8081:80/tcp");
    expect(added.exit).toBe(0);
    await containerd.ctr("run", "--detach", "--with-ns", "network:/run/netns/made", IMAGE, "made", ...serve("made"));

    expect((await curl(node, `http://${HOST_ADDRESS}:8081/`, outside)).stdout).toBe("made\n");
    await containerd.ctr("task", "kill", "--signal", "KILL", "made");
    expect((await tortiectl("del")).exit).toBe(0);
    await expectNothingLeft(node);
  });
});
