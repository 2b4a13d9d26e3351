type Fields = Readonly<Record<string, unknown>>;

/** A kubeconfig with one context, "x", of cluster "c" and user "u". */
export function kubeconfigOf(cluster: Fields, user: Fields = {}) {
  return {
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "c", cluster }],
    users: [{ name: "u", user }],
    contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
    "current-context": "x",
  };
}
