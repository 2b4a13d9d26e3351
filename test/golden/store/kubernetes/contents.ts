/**
 * What the API server holds for the scenario that is being played. Scenarios follow each other on one server, so this is quick: what the
 * next one needs and the plugins never write stays where it is, everything else is deleted at once.
 */
import type { Answer } from "../../../support/kubernetes/admin-client.ts";
import { calicoPlurals, LEGACY, pathOf } from "../../../support/kubernetes/resources.ts";
import { type JsonRecord, listOf, parseJson, printJson, recordOf, textOf } from "../../compare/json.ts";
import type { StoredObject } from "../../recording/stored-object.ts";
import { type Manifest, manifestOf, pathOfNamed, RECORDED_NAMESPACE } from "./objects.ts";

export type AskServer = (method: string, path: string, body?: string, contentType?: string) => Promise<Answer>;

/** What plugins make and delete by themselves. */
const WRITTEN_BY_PLUGINS = ["ipamblocks", "blockaffinities", "ipamhandles"];
const MERGE = "application/merge-patch+json";
const DELETE_NOW = printJson({ gracePeriodSeconds: 0, propagationPolicy: "Background" });
/** Virtual machines, whose uids others refer to. */
const OWNERS = ["VirtualMachine", "VirtualMachineInstance"];
/** What others live in or refer to is created before them. */
const FIRST = ["Namespace", ...OWNERS];

export class Contents {
  readonly #ask: AskServer;
  /** Path → the manifest as text; "" for what a scenario changed. */
  readonly #present = new Map<string, string>();
  readonly #withFinalizers = new Set<string>();
  readonly #uids = new Map<string, string>();
  #isKnown = false;

  constructor(ask: AskServer) {
    this.#ask = ask;
  }

  /** Tokens `{{uid:…}}` of the scenario → the uids that the server gave. */
  get uids(): ReadonlyMap<string, string> {
    return this.#uids;
  }

  /** Makes the server hold exactly these objects. */
  async replace(objects: readonly StoredObject[]): Promise<void> {
    if (!this.#isKnown) await this.#findAll();
    // If anything fails, the next scenario starts by looking.
    this.#isKnown = false;
    this.#uids.clear();
    // Of two with one name the later one counts: a setup replaces what a recording has.
    const wanted = new Map(objects.map((object) => [manifestOf(object, new Map()).path, object]));
    await this.#removeAllBut((path, text) => {
      const object = wanted.get(path);
      const manifest = object === undefined ? undefined : manifestOf(object, new Map());
      return manifest?.isReadOnly === true && text === textOfManifest(manifest);
    });
    const first = FIRST.map((kind) => [...wanted.values()].filter((object) => object.kind === kind));
    const others = [...wanted.values()].filter(({ kind }) => !FIRST.includes(kind));
    for (const group of [...first, others]) await Promise.all(group.map((object) => this.#create(object)));
    this.#isKnown = true;
  }

  /** Creates an object, or makes the stored one equal to it; one that is being deleted is deleted. */
  async put(stored: StoredObject): Promise<void> {
    const manifest = manifestOf(stored, this.#uids);
    const { path, object } = manifest;
    const there = await this.#ask("GET", path);
    if (there.status === 404) return this.#create(stored);
    this.#present.set(path, "");
    if (manifest.isDeleting) return this.#must("DELETE", path, DELETE_NOW).then(() => undefined);
    const current = recordOf(parseJson(there.text));
    const metadata = { ...object.metadata, resourceVersion: textOf(recordOf(current.metadata).resourceVersion) };
    // What tests change of a pod is not in its spec, which cannot be replaced.
    const replacement = object.kind === "Pod" ? { ...current, metadata } : { ...object, metadata };
    await this.#must("PUT", path, text(replacement));
    await this.#putStatus(manifest);
  }

  /** A pod's finalizers are heeded (pod-terminating), those of a virtual machine only held it until now. */
  async remove(kind: string, name: string): Promise<void> {
    const path = pathOfNamed(kind, name);
    // Whatever is left of it (a finalizer may hold it) is not what the next scenario asks for.
    this.#present.set(path, "");
    await this.#must("DELETE", path, DELETE_NOW);
    if (OWNERS.includes(kind)) await this.#must("PATCH", path, text({ metadata: { finalizers: null } }), MERGE);
  }

  /** "plural/name" → labels, annotations, spec of Calico's objects that plugins write. */
  async calicoObjects(): Promise<JsonRecord> {
    const lists = await Promise.all(
      WRITTEN_BY_PLUGINS.map(async (plural) => (await this.#list(LEGACY, plural)).map((object) => [plural, object] as const)),
    );
    return Object.fromEntries(
      lists.flat().map(([plural, { metadata, spec }]) => {
        const { name, labels = {}, annotations = {} } = recordOf(metadata);
        return [`${plural}/${textOf(name)}`, { labels, annotations, spec: spec ?? {} }];
      }),
    );
  }

  /** Pod → annotations, of the recordings' namespace. */
  async podAnnotations(): Promise<JsonRecord> {
    const pods = (await this.#list("v1", "pods", RECORDED_NAMESPACE)).map(({ metadata }) => recordOf(metadata));
    return Object.fromEntries(pods.map(({ name, annotations = {} }) => [textOf(name), annotations]));
  }

  async #create(stored: StoredObject): Promise<void> {
    const manifest = manifestOf(stored, this.#uids);
    const { path, collection, object, kind } = manifest;
    if (this.#present.get(path) === textOfManifest(manifest)) return;
    const answer = await this.#ask("POST", collection, text(object));
    // The server makes namespace "default" by itself, and no namespace ever goes.
    const created = answer.status === 409 && kind === "Namespace" ? await this.#overwrite(manifest) : answer;
    if (created.status >= 300) throw refusal("POST", path, created);
    this.#present.set(path, manifest.isReadOnly ? textOfManifest(manifest) : "");
    if (OWNERS.includes(kind) && stored.uid !== undefined) {
      this.#uids.set(stored.uid, textOf(recordOf(recordOf(parseJson(created.text)).metadata).uid));
    }
    if (object.metadata.finalizers !== undefined) this.#withFinalizers.add(path);
    await this.#putStatus(manifest);
    if (manifest.isDeleting) await this.#must("DELETE", path, DELETE_NOW);
  }

  #overwrite({ path, object }: Manifest): Promise<Answer> {
    return this.#ask("PUT", path, text(object));
  }

  /** CRDs of the legacy group have no status sub-resource: there it was stored with the object. */
  async #putStatus({ kind, path, object }: Manifest): Promise<void> {
    if (kind !== "Pod" || object.status === undefined) return;
    await this.#must("PATCH", `${path}/status`, text({ status: object.status }), MERGE);
  }

  async #removeAllBut(isKept: (path: string, text: string) => boolean): Promise<void> {
    const written = Object.keys(await this.calicoObjects()).map((key) => {
      const slash = key.indexOf("/");
      return pathOf(LEGACY, key.slice(0, slash), key.slice(slash + 1));
    });
    for (const path of written) this.#present.set(path, "");
    const gone = [...this.#present].filter(([path, manifest]) => !isKept(path, manifest)).map(([path]) => path);
    await Promise.all(gone.map((path) => this.#delete(path)));
  }

  async #delete(path: string): Promise<void> {
    this.#present.delete(path);
    if (/^\/api\/v1\/namespaces\/[^/]+$/.test(path)) return;
    if (this.#withFinalizers.delete(path)) await this.#ask("PATCH", path, text({ metadata: { finalizers: null } }), MERGE);
    const answer = await this.#ask("DELETE", path, DELETE_NOW);
    if (answer.status >= 300 && answer.status !== 404) throw refusal("DELETE", path, answer);
  }

  /** At first, and after a failure. */
  async #findAll(): Promise<void> {
    const kinds: readonly (readonly [string, string])[] = [
      ...calicoPlurals(LEGACY).map((plural) => [LEGACY, plural] as const),
      ["kubevirt.io/v1", "virtualmachines"],
      ["kubevirt.io/v1", "virtualmachineinstances"],
      ["v1", "pods"],
      ["v1", "nodes"],
    ];
    this.#present.clear();
    for (const [apiVersion, plural] of kinds) {
      for (const { metadata } of await this.#list(apiVersion, plural)) {
        const { name, namespace, finalizers } = recordOf(metadata);
        const path = pathOf(apiVersion, plural, textOf(name), typeof namespace === "string" ? namespace : undefined);
        this.#present.set(path, "");
        if (finalizers !== undefined) this.#withFinalizers.add(path);
      }
    }
  }

  async #list(apiVersion: string, plural: string, namespace?: string): Promise<JsonRecord[]> {
    const answer = await this.#must("GET", pathOf(apiVersion, plural, undefined, namespace));
    return listOf(recordOf(parseJson(answer.text)).items).map(recordOf);
  }

  async #must(method: string, path: string, body?: string, contentType?: string): Promise<Answer> {
    const answer = await this.#ask(method, path, body, contentType);
    if (answer.status >= 300) throw refusal(method, path, answer);
    return answer;
  }
}

function textOfManifest({ object }: Manifest): string {
  return text(object);
}

/** @param value plain JSON, with the recordings' long numbers as texts */
function text(value: object): string {
  return printJson(JSON.parse(JSON.stringify(value)));
}

function refusal(method: string, path: string, { status, text: answer }: Answer): Error {
  return new Error(`${method} ${path}: ${status} ${answer}`);
}
