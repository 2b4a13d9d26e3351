/** What the replayer believes an API server to hold, against a server that keeps objects by their paths and nothing else. */
import type { StoredObject } from "../../golden/recording/stored-object.ts";
import { type AskServer, Contents } from "../../golden/store/kubernetes/contents.ts";
import type { Answer } from "../../support/kubernetes/admin-client.ts";

/** @returns what asks the server, and the paths of its objects */
function server(): { readonly ask: AskServer; readonly paths: () => readonly string[] } {
  const objects = new Map<string, string>();
  const isCollection = (path: string) => /\/(?:namespaces\/[^/]+\/)?[a-z]+$/.test(path) && !objects.has(path);
  const ask: AskServer = async (method, path, body = "") => {
    if (method === "POST") {
      objects.set(`${path}/${JSON.parse(body).metadata.name}`, body);
      return answer(201, body);
    }
    if (method === "GET" && !objects.has(path) && isCollection(path)) {
      const items = [...objects].filter(([key]) => key.startsWith(`${path}/`)).map(([, text]) => text);
      return answer(200, `{"items":[${items.join(",")}]}`);
    }
    const text = objects.get(path);
    if (text === undefined) return answer(404, "{}");
    if (method === "DELETE") objects.delete(path);
    else if (method !== "GET") objects.set(path, body);
    return answer(200, text);
  };
  return { ask, paths: () => [...objects.keys()] };
}

function answer(status: number, text: string): Answer {
  return { status, text, body: JSON.parse(text), headers: new Headers() };
}

const POOL: StoredObject = {
  kind: "IPPool",
  name: "pool4",
  labels: {},
  annotations: {},
  deleting: false,
  spec: { cidr: "10.60.0.0/16" },
  status: {},
};

describe("The objects of a scenario on the API server", () => {
  it("W6: are made again for the next scenario after a step has removed one", async () => {
    const { ask, paths } = server();
    const contents = new Contents(ask);
    await contents.replace([POOL]);
    const before = paths();
    expect(before).toHaveLength(1);

    await contents.remove("IPPool", "pool4");
    expect(paths()).toEqual([]);
    await contents.replace([POOL]);

    expect(paths()).toEqual(before);
  });

  it("stay where they are when the next scenario wants the same and nothing has changed them", async () => {
    const { ask } = server();
    const asked: string[] = [];
    const contents = new Contents((method, ...rest) => {
      asked.push(method);
      return ask(method, ...rest);
    });
    await contents.replace([POOL]);
    asked.length = 0;

    await contents.replace([POOL]);

    expect(asked.filter((method) => method !== "GET")).toEqual([]);
  });
});
