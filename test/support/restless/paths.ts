/** Paths of network namespaces that lead to something else than a sandbox. */
import { execaSync } from "execa";

/** Makes a path lead to a namespace, until the function that it returns is called. */
export function leadTo(namespace: string, path: string): () => void {
  execaSync("touch", [path]);
  execaSync("mount", ["--bind", namespace, path]);
  return () => {
    execaSync("umount", [path]);
    execaSync("rm", [path]);
  };
}
