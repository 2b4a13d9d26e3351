/** How the judge looks: iproute2 and nft inside a namespace of the test's own, and the rows of the store's file read by SQLite itself. */
import { Database } from "bun:sqlite";
import { spawn } from "node:child_process";
import { closeSync, existsSync, openSync, readdirSync, readFileSync, readSync, statSync } from "node:fs";
import { isIP, isIPv6 } from "node:net";
import { basename, dirname, join } from "node:path";
import ipaddr from "ipaddr.js";
import {
  DEFAULT_ROUTES,
  NO_STORE,
  type Seen,
  type SeenGrant,
  type SeenLink,
  type SeenNamespace,
  type SeenRoute,
  type SeenStore,
} from "./world.ts";

const QUESTIONS = ["ip -j -d address", "ip -j route", "ip -j -6 route", "cat /proc/sys/net/ipv4/ip_forward", "nft list tables"];
const SEPARATOR = "=====";
/** How an SQLite file begins (sqlite.org/fileformat.html, 1.3). */
const SQLITE = "SQLite format 3\0";
/** Arguments: the host's name, then those of its sandboxes. */
const MACHINE_QUESTIONS = `
set -e
ip -n "$1" -j route; printf ${SEPARATOR}; ip -n "$1" -j -6 route
for name in "$@"; do printf ${SEPARATOR}; ip -n "$name" -j -d address; done`;

/**
 * One look at a namespace that a test has made.
 * @throws Error when it is this process's own: the judge has no business there
 */
export async function lookAtNamespace(path: string): Promise<SeenNamespace> {
  const own = statSync("/proc/self/ns/net");
  const { dev, ino } = statSync(path);
  if (dev === own.dev && ino === own.ino) throw new Error(`${path} is the judge's own namespace`);
  const text = await output(["/usr/bin/nsenter", `--net=${path}`, "/bin/sh", "-c", QUESTIONS.join(` && printf '${SEPARATOR}' && `)]);
  const [links = "", routes4 = "", routes6 = "", forwarding = "", tables = ""] = text.split(SEPARATOR);
  return {
    links: seenLinks(links),
    routes: [...seenRoutes(routes4, 4), ...seenRoutes(routes6, 6)],
    isForwarding: forwarding.trim() === "1",
    tables: [...tables.matchAll(/^table (.+)$/gm)].map(([, name = ""]) => name),
  };
}

/** What a pretend machine's host has when its test is over, and which links and addresses its sandboxes have: one process a question. */
export async function lookAtMachine(host: string, sandboxes: readonly string[]): Promise<Omit<Seen, "store">> {
  const text = await output(["/bin/sh", "-c", MACHINE_QUESTIONS, "look", host, ...sandboxes]);
  const [routes4 = "", routes6 = "", links = "", ...inside] = text.split(SEPARATOR);
  const seen = (answer = ""): SeenNamespace => ({ links: seenLinks(answer), routes: [], isForwarding: false, tables: [] });
  return {
    host: { ...seen(links), routes: [...seenRoutes(routes4, 4), ...seenRoutes(routes6, 6)] },
    sandboxes: new Map(sandboxes.map((name, place) => [name, seen(inside[place])])),
  };
}

/** The rows of an embedded store; nothing at all when there is no file yet. */
export function lookAtStore(path: string): SeenStore {
  if (!existsSync(path)) return NO_STORE;
  using database = new Database(path, { readonly: true });
  const rows = (kind: string) =>
    database.query<{ value: string; detail: string | null }, [string]>("SELECT value, detail FROM objects WHERE kind = ?").all(kind);
  return {
    grants: rows("block").flatMap(({ value, detail }) => grantsOfBlock(recordOf(JSON.parse(value)), recordOf(JSON.parse(detail ?? "{}")))),
    blocks: rows("block").map(({ value }) => String(recordOf(JSON.parse(value)).cidr)),
    handles: new Map(
      rows("handle").map(({ value }) => {
        const { id, blocks } = recordOf(JSON.parse(value));
        return [String(id), Object.values(recordOf(blocks)).reduce<number>((sum, count) => sum + Number(count), 0)];
      }),
    ),
    endpoints: rows("endpoint").map(({ value }) => {
      const { containerID, endpoint } = recordOf(JSON.parse(value));
      return `${containerID} ${endpoint}`;
    }),
  };
}

/** What all embedded stores and grant files below a directory hold together; `undefined` when there is none. */
export function lookAtStores(directory: string): SeenStore | undefined {
  const stores = filesBelow(directory).flatMap((path) => {
    if (isIP(basename(path)) !== 0) return [lookAtGrantFile(path)];
    return beginningOf(path) === SQLITE ? [lookAtStore(path)] : [];
  });
  return stores.length === 0 ? undefined : together(stores);
}

/** One store that has what several have. */
export function together(stores: readonly SeenStore[]): SeenStore {
  const handles = new Map<string, number>();
  for (const [handle, count] of stores.flatMap((store) => [...store.handles])) handles.set(handle, (handles.get(handle) ?? 0) + count);
  return {
    grants: stores.flatMap(({ grants }) => grants),
    blocks: stores.flatMap(({ blocks = [] }) => blocks),
    handles,
    endpoints: stores.flatMap(({ endpoints }) => endpoints),
    lacksEndpoints: stores.some(({ lacksEndpoints }) => lacksEndpoints === true),
  };
}

/**
 * A grant file has the address as its name, and counts for itself: one of host scope (A§4), where what the agent holds for itself has no
 * attachment, or one of the host-local plugin, in its network's directory, with container and interface in two lines.
 */
function lookAtGrantFile(path: string): SeenStore {
  const text = readFileSync(path, "utf8");
  const isHostScope = text.startsWith("{");
  const { network, "container-id": containerId } = isHostScope ? recordOf(recordOf(JSON.parse(text)).attachment) : {};
  const owner = isHostScope ? `${network}.${containerId}` : `${basename(dirname(path))}.${text.split("\n")[0]?.trim()}`;
  const handle = isHostScope && containerId === undefined ? "" : owner;
  return { grants: [{ address: canonical(basename(path)), handle }], handles: new Map([[handle, 1]]), endpoints: [] };
}

/** Symbolic links are not followed. */
function filesBelow(directory: string): string[] {
  return readdirSync(directory, { withFileTypes: true }).flatMap((entry) => {
    const path = join(directory, entry.name);
    if (entry.isDirectory()) return filesBelow(path);
    return entry.isFile() ? [path] : [];
  });
}

function beginningOf(path: string): string {
  const bytes = Buffer.alloc(SQLITE.length);
  const file = openSync(path, "r");
  try {
    return bytes.toString("latin1", 0, readSync(file, bytes, 0, bytes.length, 0));
  } finally {
    closeSync(file);
  }
}

/** What `allocations` and `attributes` of a raw block hold; an address that cools down belongs to nobody (I§2.4). */
export function grantsOfBlock(head: JsonRecord, detail: JsonRecord): SeenGrant[] {
  const [base = "", length = ""] = String(head.cidr).split("/");
  if (base === "" || length === "") throw new Error(`block without CIDR: ${JSON.stringify(head)}`);
  const attributes = Array.isArray(detail.attributes) ? detail.attributes.map(recordOf) : [];
  const allocations = Array.isArray(detail.allocations) ? detail.allocations : [];
  return allocations.flatMap((index, ordinal) => {
    const attribute = index === null ? undefined : attributes[Number(index)];
    if (attribute === undefined || attribute.releasedAt !== undefined) return [];
    return [{ address: addressAt(base, ordinal), handle: String(attribute.handle_id ?? "") }];
  });
}

/** Blocks begin at a multiple of their size, and no ordinal is above 65535: it goes into the last two bytes, with their carries. */
function addressAt(base: string, ordinal: number): string {
  const bytes = ipaddr.parse(base).toByteArray();
  for (let place = bytes.length - 1, rest = ordinal; rest > 0 && place >= 0; place--) {
    rest += bytes[place] ?? 0;
    bytes[place] = rest & 0xff;
    rest >>= 8;
  }
  return canonical(ipaddr.fromByteArray(bytes).toString());
}

/** As iproute2 prints it (RFC 5952). */
function canonical(address: string): string {
  return isIPv6(address) ? new URL(`http://[${address}]/`).hostname.slice(1, -1) : address;
}

export type JsonRecord = Readonly<Record<string, unknown>>;

function seenLinks(text: string): SeenLink[] {
  return listOf(text)
    .filter(({ ifname }) => ifname !== "lo")
    .map(seenLink);
}

function seenRoutes(text: string, family: 4 | 6): SeenRoute[] {
  return listOf(text)
    .filter(isOfSomebody)
    .map((route) => seenRoute(route, DEFAULT_ROUTES[family]));
}

function seenLink({ ifname, ifalias, ifindex, link_index, group, addr_info }: JsonRecord): SeenLink {
  const addresses = (Array.isArray(addr_info) ? addr_info : []).map(recordOf).filter(({ scope }) => scope === "global");
  return {
    name: String(ifname),
    alias: String(ifalias ?? ""),
    index: Number(ifindex),
    peer: Number(link_index ?? 0),
    group: String(group ?? "default"),
    addresses: addresses.map(({ local }) => String(local)),
  };
}

/** Routes that an address or a link brings with it are no work of anybody. */
function isOfSomebody({ dst, protocol }: JsonRecord): boolean {
  return protocol !== "kernel" && !/^(fe80|ff00|169\.254\.)/.test(String(dst));
}

function seenRoute({ dst, dev }: JsonRecord, everywhere: string): SeenRoute {
  return { destination: dst === "default" ? everywhere : String(dst), device: String(dev) };
}

function listOf(text: string): JsonRecord[] {
  // It prints nothing at all for some empty lists.
  const list: unknown = text.trim() === "" ? [] : JSON.parse(text);
  return Array.isArray(list) ? list.map(recordOf) : [];
}

export function recordOf(value: unknown): JsonRecord {
  return typeof value === "object" && value !== null ? { ...value } : {};
}

/** @throws Error when the command fails */
function output(argv: readonly string[]): Promise<string> {
  const [file = "", ...args] = argv;
  return new Promise((done, failed) => {
    const child = spawn(file, args, { stdio: ["ignore", "pipe", "pipe"] });
    const texts = { out: "", err: "" };
    child.stdout.on("data", (chunk: Buffer) => {
      texts.out += chunk.toString();
    });
    child.stderr.on("data", (chunk: Buffer) => {
      texts.err += chunk.toString();
    });
    child.on("error", failed);
    child.on("close", (exit) => (exit === 0 ? done(texts.out) : failed(new Error(`${argv.join(" ")}: exit ${exit}: ${texts.err}`))));
  });
}
